#include "tests/unit/unit.h"

#include <stdatomic.h>

#include "daemon/engines/copy/workq.h"

struct node {
	struct work work;
	struct workq *q;
	unsigned depth;
};

static atomic_uint n_done;

static void push(struct workq *q, unsigned depth);

static void run_node(struct work *work, void *arg)
{
	struct node *n = (struct node *)work;

	assert_ptr_equal(arg, &n_done);
	for (unsigned i = 0; n->depth > 0 && i < 4; i++)
		push(n->q, n->depth - 1);
	if (n->depth == 3)
		workq_grow(n->q, 8);
	atomic_fetch_add(&n_done, 1);
	free(n);
}

static void push(struct workq *q, unsigned depth)
{
	struct node *n = calloc(1, sizeof(*n));

	n->work.run = run_node;
	n->q = q;
	n->depth = depth;
	workq_push(q, &n->work);
}

static void test_all_work_is_done_by_any_number_of_threads(void **state)
{
	static const size_t n_threads[] = { 1, 2, 3, 16, 300 };

	for (size_t i = 0; i < ARRAY_SIZE(n_threads); i++) {
		struct workq *q;

		assert_int_equal(workq_new(&q, &n_done), 0);
		atomic_store(&n_done, 0);
		push(q, 6);
		assert_int_equal(workq_get_queued(q), 1);
		workq_run(q, n_threads[i]);
		assert_int_equal(atomic_load(&n_done), (16384 - 1) / 3);
		assert_int_equal(workq_get_queued(q), 0);
		assert_int_equal(workq_get_waiting(q), 0);
		workq_free(q);
	}
}

static void test_nothing_to_do_ends_at_once(void **state)
{
	struct workq *q;

	assert_int_equal(workq_new(&q, NULL), 0);
	workq_run(q, 4);
	workq_free(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_work_is_done_by_any_number_of_threads),
		cmocka_unit_test(test_nothing_to_do_ends_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
