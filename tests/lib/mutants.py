"""
Small mistakes in C sources, for tools/mutate: where one can be made, and what the source is with
it.

By tokens, without a grammar: what does not compile any more is for tools/mutate to find out.
"""
import re

SWAPS = {'==': '!=', '!=': '==', '<': '<=', '<=': '<', '>': '>=', '>=': '>', '&&': '||', '||': '&&',
         '+': '-', '-': '+', '&': '|', '|': '&', '+=': '-=', '-=': '+='}
UNARY = ('+', '-', '&')
ASSIGN = re.compile(r'[-+*/%&|^]?=|<<=|>>=')
# Texts, comments, and what the preprocessor gets but for its constants
NO_CODE = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*|'
                     r'^#[ \t]*(?!define)(?:\\\n|[^\n])*', re.S | re.M)
NO_SUBJECT = re.compile(r'(log_\w+|assert|static_assert)$')  # and what is in their parentheses
BUFFER = re.compile(r'\s*(static |const )*char [^;=]*\[[^]\n]*$|.*\[static [^]\n]*$')  # nobody sees how long it is
CONTROL = ('if', 'for', 'while', 'switch', 'do', 'else', 'return', 'case', 'goto')
TOKEN = re.compile(r'->|\+\+|--|<<=|>>=|<<|>>|[-+*/%&|^=!<>]=|&&|\|\||[A-Za-z_]\w*|'
                   r'(?:0[xX][0-9a-fA-F]+|\d+(?:\.\d+)?)\w*|\S')
NUMBER = re.compile(r'(0[xX])?([0-9a-fA-F]+?)([uUlL]*)$')
FAILURE = re.compile(r'\w*(error|refuse)\w*\(')


class Source:
    """A file, its tokens, and which parentheses belong together."""

    def __init__(self, path, text):
        self.path, self.text = path, text
        self.code = NO_CODE.sub(lambda m: re.sub(r'[^\n]', ' ' if m[0][0] in '/#' else 'T', m[0]), text)
        self.tokens = [(m[0], m.start(), m.end()) for m in TOKEN.finditer(self.code)]
        self.tokens.append((';', len(text), len(text)))
        self.close, self.open, stack = {}, {}, []
        for i, (t, _, _) in enumerate(self.tokens):
            if t in '([{':
                stack.append(i)
            elif t in ')]}' and stack:
                self.open[i] = stack.pop()
                self.close[self.open[i]] = i

    def word(self, i):
        return self.tokens[i][0] if 0 <= i < len(self.tokens) else ''

    def skip(self, i):
        """What follows the token, and what is in it if it opens something."""
        return self.close.get(i, i) + 1

    def find(self, i, *words):
        """The first of these from i on, beside what is in parentheses."""
        while i < len(self.tokens) - 1 and self.word(i) not in words:
            i = self.skip(i)
        return i

    def span(self, first, last):
        """From the first token to in front of the last."""
        return self.tokens[first][1], self.tokens[last - 1][2]


class Mutant:
    """A source with a mistake in it."""

    def __init__(self, source, start, end, new):
        old, line_start = source.text[start:end], source.text.rfind('\n', 0, start) + 1
        self.path, self.line = source.path, source.text.count('\n', 0, start) + 1
        self.text = source.text[:start] + new + '\n' * (old.count('\n') - new.count('\n')) + source.text[end:]
        before, after = source.text[line_start:start].lstrip(), source.text[end:].split('\n', 1)[0]
        shown = new.replace(old, '...') if len(old) > 20 else new
        self.what = f'{before}[{" ".join(old.split())} -> {shown}]{after}'

    def __str__(self):
        return f'{self.path}:{self.line}: {self.what}'


def change_number(s, i):
    text, start, end = s.tokens[i]
    m = NUMBER.match(text)
    before = s.code[s.code.rfind('\n', 0, start) + 1:start]
    if not m or BUFFER.match(before) or (s.word(i - 1), s.word(i + 1)) == ('{', '}'):
        return
    base = 16 if m[1] else 8 if m[2][0] == '0' and len(m[2]) > 1 else 10
    form, n = {16: '0x{:x}', 8: '0{:o}', 10: '{}'}[base], int(m[2], base)
    for other in {n + 1, max(n - 1, 0)} - {n}:
        yield start, end, form.format(other) + m[3]


def turn_condition(s, i):
    """of `if (...)`, `while (...)`, `for (;...;)`, `... ?`"""
    first, last = i + 2, s.close.get(i + 1, 0)
    if s.word(i) == '?':
        first = last = i
        while s.word(i + 1) != ':' and s.word(first - 1) not in ('(', '[', '{', '}', ',', '=', ';', ':', '?', 'return'):
            first = s.open.get(first - 1, first - 1)
    elif s.word(i) == 'for':
        first = s.find(first, ';') + 1
        last = s.find(first, ';')
    if first < last:
        start, end = s.span(first, last)
        yield start, end, f'!({s.text[start:end]})'


def change_return(s, i):
    last = s.find(i, ';')
    if last == i + 1:
        return
    start, end = s.span(i + 1, last)
    value = s.text[start:end]
    if value == '0':
        yield start, end, '-EINVAL'
    elif value in ('true', 'false'):
        yield start, end, 'false' if value == 'true' else 'true'
    elif re.fullmatch(r'-?[a-zA-Z]\w*', value) and value != 'NULL':
        yield start, end, '0'
    elif FAILURE.match(value):
        yield start, end, value + ', 0'


def declares(words):
    """Are these what stands in front of the = of a declaration?"""
    pointer = len(words) > 2 and words[1] == '*' and re.match(r'\w', words[0])
    return pointer or any(re.match(r'\w', b) and re.match(r'[\w)]', a) for a, b in zip(words, words[1:]))


def leave_out(s, i):
    """`x = ...;`, `x++;`, `call(...);`, `break;`"""
    end, assigned = s.find(i, ';', '{', '}'), i
    while assigned < end and not ASSIGN.fullmatch(s.word(assigned)):
        assigned = s.skip(assigned)
    words = [s.word(n) for n in range(i, min(assigned, end))]
    if s.word(end) != ';' or not words or words[0] in CONTROL or NO_SUBJECT.match(words[0]):
        return
    is_call = re.match(r'[a-z_]\w*$', words[0]) and s.word(i + 1) == '(' and s.skip(i + 1) == end
    is_step = {'++', '--'} & {words[0], words[-1]}
    is_jump = words in (['break'], ['continue'])
    if is_call or is_step or is_jump or (assigned < end and not declares(words)):
        yield s.tokens[i][1], s.tokens[end][1], ''


def ends_statement(s, i):
    """Or what stands in front of one."""
    t, before = s.word(i), s.word(i - 1)
    if t == ')':
        return s.word(s.open.get(i, 0) - 1) in ('if', 'for', 'while', 'switch')
    return t in (';', '{', '}', 'else', 'do') or (t == ':' and (before == 'default' or s.word(i - 2) == 'case'))


def make(path, text):
    """All mutants of a source, from its top."""
    s = Source(path, text)
    found, i = set(), 0
    while i < len(s.tokens):
        t, before = s.word(i), s.word(i - 1)
        if i == 0 or ends_statement(s, i - 1):
            found.update(leave_out(s, i))
        is_binary = re.match(r'[\w)\]]', before) and before not in ('return', 'case')
        if NO_SUBJECT.match(t) and s.word(i + 1) == '(':
            i = s.close[i + 1]
        elif t in SWAPS and (t not in UNARY or is_binary):
            found.add((*s.tokens[i][1:], SWAPS[t]))
        elif t == '!':
            found.add((*s.tokens[i][1:], ''))
        elif t[0].isdigit():
            found.update(change_number(s, i))
        elif t == 'return':
            found.update(change_return(s, i))
        elif t in ('if', 'while', 'for', '?'):
            found.update(turn_condition(s, i))
        i += 1
    return [Mutant(s, *change) for change in sorted(found)]
