#!/usr/bin/env python3
"""
What tests/lib/mutants.py makes of a source: each change of a small one, and that nothing is changed
in comments, texts, what is logged, and declarations.

Seen failing with a change that spans a line less than what it replaces, with texts that are not
left alone, and with a declaration that is left out.

usage: mutants-test.py SOURCES
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(sys.argv[1], 'tests', 'lib'))
import mutants  # noqa: E402

# A statement of a function and what stands in its place, one after the other
CASES = [
    ('if (a < b)\n\t\tgo();', ['if (!(a < b))\n\t\tgo();', 'if (a <= b)\n\t\tgo();', 'if (a < b)\n\t\t;']),
    ('a = b + 1;', [';', 'a = b - 1;', 'a = b + 0;', 'a = b + 2;']),
    ('int a = 07, *b = f(a);', ['int a = 06, *b = f(a);', 'int a = 010, *b = f(a);']),
    ('char a[256], b[7];', []),
    ('struct s a = { 0 };', []),
    ('log_error(a == b ? "x" : "y");', []),
    ('assert(a > 0);', []),
    ('f("a == b", \'<\'); /* a == b */ // 1', ['; /* a == b */ // 1']),
    ('return 0;', ['return -EINVAL;', 'return 1;']),
    ('return -ENOENT;', ['return 0;']),
    ('return error_set(err,\n\t\tx);', ['return error_set(err,\n\t\tx), 0;']),
    ('return true;', ['return false;']),
    ('return !*a && b;', ['return *a && b;', 'return !*a || b;']),
    ('return a ? b : c;', ['return !(a) ? b : c;']),
    ('for (; a; b++)\n\t\tbreak;', ['for (; !(a); b++)\n\t\tbreak;', 'for (; a; b++)\n\t\t;']),
    ('f(&a, -b, *c | d);', [';', 'f(&a, -b, *c & d);']),
    ('a[0x1f]\n\t\t|= b;', ['\n;', 'a[0x1e]\n\t\t|= b;', 'a[0x20]\n\t\t|= b;']),
]

AROUND = '#include <x.h>\nvoid f(int a)\n{{\n\t{}\n}}\n'


def main():
    failed = False
    for text, expect in CASES:
        before = AROUND.format(text)
        made = mutants.make('x.c', before)
        more = {m.text for m in made} - {AROUND.format(e) for e in expect}
        less = {AROUND.format(e) for e in expect} - {m.text for m in made}
        lines = [m.line for m in made if m.line < 4 or m.line > 1 + os.path.commonprefix([before, m.text]).count('\n')]
        if more or less or lines or len(made) != len(expect):
            failed = True
            print(before, *('more: ' + text for text in more), *('less: ' + text for text in less), lines)
    sys.exit(failed)


main()
