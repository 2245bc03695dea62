"""Small problems whose answers are programs, each with a right and a wrong answer, in the forms in which datasets have them."""


def humaneval(prompt, check, right, wrong, entry_point):
    """A row as HumanEval has it; the answers go on with the prompt."""
    return {"prompt": prompt, "test": check, "entry_point": entry_point}, right, wrong


def mbpp(tests, right, wrong, **more):
    """A row as MBPP has it."""
    return {"text": "Write a function.", "test_list": tests, "test_setup_code": "", **more}, right, wrong


def cases(pairs, right, wrong):
    """Inputs with outputs."""
    return (
        {"problem": "Read and print.", "metadata": {"cases": [{"input": a, "output": b} for a, b in pairs]}},
        right,
        wrong,
    )


def own(tests, right, wrong, **more):
    """Tests of somebody's own, in the field ``tests``."""
    return {"problem": "Write a program.", "metadata": {"tests": tests, **more}}, right, wrong


_PAIR = "class Pair:\n    def __init__(self, a, b):\n        self.a, self.b = a, b\n"

PROBLEMS = {
    # -- as in HumanEval
    "increment": humaneval(
        'def incr(x: int) -> int:\n    """Return x + 1."""\n',
        "def check(candidate):\n    assert candidate(1) == 2\n    assert candidate(-1) == 0\n",
        "    return x + 1\n",
        "    return x + 2\n",
        "incr",
    ),
    "completion_without_its_first_indentation": humaneval(
        'def largest(items):\n    """Return the largest item."""\n',
        "def check(candidate):\n    assert candidate([3, 9, 2]) == 9\n",
        "best = items[0]\n    for each in items:\n        if each > best:\n            best = each\n    return best",
        "best = items[0]\n    return best",
        "largest",
    ),
    "typed_with_an_import_of_the_prompt": humaneval(
        'from typing import List\n\n\ndef total(items: List[int]) -> int:\n    """Return the sum."""\n',
        "METADATA = {}\n\ndef check(candidate):\n    assert candidate([]) == 0\n    assert candidate([1, 2]) == 3\n",
        "Sure!\n\n```python\ndef total(items: List[int]) -> int:\n    return sum(items)\n```\nThis sums them.",
        "```python\ndef total(items: List[int]) -> int:\n    return len(items)\n```",
        "total",
    ),
    "tests_with_a_helper_of_the_prompt": humaneval(
        'import math\n\n\ndef poly(xs, x):\n    """Evaluate."""\n    return sum(c * math.pow(x, i) for i, c in enumerate(xs))\n\n\n'
        'def root(xs):\n    """Find a root of a linear polynomial."""\n',
        "import math, copy\ndef check(candidate):\n    for coeffs in ([2, 1], [-6, 2]):\n"
        "        assert math.fabs(poly(coeffs, candidate(copy.deepcopy(coeffs)))) < 1e-4\n",
        "    return -xs[0] / xs[1]\n",
        "    return xs[0]\n",
        "root",
    ),
    "random_tests_against_a_reference": humaneval(
        'def backwards(text):\n    """Reverse a text."""\n',
        "from random import choice, randint\ndef check(candidate):\n    for _ in range(50):\n"
        "        text = ''.join(choice('abc') for _ in range(randint(0, 9)))\n        assert candidate(text) == text[::-1]\n",
        "    return ''.join(reversed(text))\n",
        "    return text\n",
        "backwards",
    ),
    "floats": humaneval(
        'def mean(items):\n    """Return the mean."""\n',
        "def check(candidate):\n    assert abs(candidate([1.0, 2.0]) - 1.5) < 1e-6\n",
        "    return sum(items) / len(items)\n",
        "    return sum(items) // len(items)\n",
        "mean",
    ),
    "none_tuples_and_nesting": humaneval(
        'def ends(items):\n    """Return the first and last, or None."""\n',
        "def check(candidate):\n    assert candidate([]) is None\n    assert candidate([1, [2]]) == (1, [2])\n",
        "    return (items[0], items[-1]) if items else None\n",
        "    return [items[0], items[-1]] if items else None\n",
        "ends",
    ),
    "a_full_program_with_thoughts_before": humaneval(
        'def double(x):\n    """Return 2x."""\n',
        "def check(candidate):\n    assert candidate(4) == 8\n",
        "<think>```python\ndef double(x): return x\n```</think>\n```python\ndef double(x):\n    return helper(x)\n\n"
        "def helper(x):\n    return 2 * x\n\nif __name__ == '__main__':\n    raise SystemExit(double(int(input())))\n```",
        "<think>```python\ndef double(x): return 2 * x\n```</think>\n```python\ndef double(x):\n    return x\n```",
        "double",
    ),
    # -- as in MBPP
    "list_of_asserts": mbpp(
        ["assert square(2) == 4", "assert square(-3) == 9", "assert square(0) == 0"],
        "```python\ndef square(n):\n    return n * n\n```",
        "```python\ndef square(n):\n    return 2 * n\n```",
    ),
    "classes_of_the_answer": mbpp(
        ["assert longest([Pair(1, 5), Pair(6, 8)]) == 4"],
        _PAIR + "def longest(pairs):\n    return max(p.b - p.a for p in pairs)",
        _PAIR + "def longest(pairs):\n    return len(pairs)",
        entry_point="longest",
    ),
    "setup_that_builds_objects_of_the_answer": mbpp(
        ["assert depth(root) == 2"],
        "class Node:\n    def __init__(self, value):\n        self.value, self.left = value, None\n"
        "def depth(node):\n    return 0 if node is None else 1 + depth(node.left)",
        "class Node:\n    def __init__(self, value):\n        self.value, self.left = value, None\ndef depth(node):\n    return 1",
        test_setup_code="root = Node(1)\nroot.left = Node(2)",
    ),
    "imports_of_the_tests": mbpp(
        ["assert math.isclose(area(1), math.pi, rel_tol=1e-6)"],
        "import math\ndef area(r):\n    return math.pi * r * r",
        "def area(r):\n    return 3 * r * r",
        test_imports=["import math"],
    ),
    "sets_and_dicts": mbpp(
        ["assert set(keys({'a': 1, 'b': 2})) == {'a', 'b'}", "assert count('aab') == {'a': 2, 'b': 1}"],
        "from collections import Counter\ndef keys(d):\n    return d.keys()\ndef count(t):\n    return Counter(t)",
        "from collections import Counter\ndef keys(d):\n    return d.values()\ndef count(t):\n    return Counter(t)",
    ),
    "changes_its_argument": mbpp(
        ["items = [3, 1, 2]\nsort_it(items)\nassert items == [1, 2, 3]"],
        "def sort_it(items):\n    items.sort()",
        "def sort_it(items):\n    return sorted(items)",
    ),
    "a_name_that_is_built_in": mbpp(
        ["assert sum([1, 2]) == '12'"],
        "def sum(items):\n    return ''.join(map(str, items))",
        "def sum(items):\n    return 3",
        code="def sum(items):\n    pass",
    ),
    "large_numbers": mbpp(
        ["assert power(7, 9000) % 10**9 == 7**9000 % 10**9", "assert power(7, 9000) == 7**9000"],
        "def power(a, b):\n    return a ** b",
        "def power(a, b):\n    return float(a) * b",
    ),
    # -- inputs with outputs
    "sum_of_a_line": cases(
        [("1 2\n", "3\n"), ("5 -5", "0")],
        "```python\nprint(sum(map(int, input().split())))\n```",
        "```python\nprint(max(map(int, input().split())))\n```",
    ),
    "lines_until_the_end": cases(
        [("a\nb\n", "2"), ("", "0")],
        "import sys\nprint(len(sys.stdin.readlines()))",
        "import sys\nprint(len(sys.stdin.read()))",
    ),
    "a_main_guard_and_threads": cases(
        [("x", "x!\n")],
        "import threading\ndef main():\n    text = input()\n    threading.Thread(target=lambda: print(text + '!')).start()\n"
        "if __name__ == '__main__':\n    main()",
        "def main():\n    print(input())\nif __name__ == 'program':\n    main()",
    ),
    "exit_with_0_after_the_output": cases(
        [("3", "3")], "import sys\nprint(input())\nsys.exit(0)", "import sys\nsys.exit(0)"
    ),
    "blanks_at_the_ends_of_lines": cases([("", "1 2\n3")], "print('1 2 ')\nprint(3, end='')", "print('12 ')\nprint(3)"),
    # -- tests of one's own
    "test_functions": own(
        "def test_one():\n    assert twice(1) == 2\n\ndef test_all():\n    for n in range(5):\n        assert twice(n) == n + n\n",
        "def twice(n):\n    return 2 * n",
        "def twice(n):\n    return 2",
    ),
    "a_class_with_state_and_errors": own(
        "from solution import Stack\n"
        "stack = Stack()\nstack.push(1)\nstack.push(2)\nassert stack.pop() == 2\nassert len(stack) == 1\n"
        "def test_empty():\n    try:\n        Stack().pop()\n    except IndexError:\n        return\n    assert False\n",
        "class Stack:\n    def __init__(self): self.items = []\n    def push(self, x): self.items.append(x)\n"
        "    def pop(self): return self.items.pop()\n    def __len__(self): return len(self.items)",
        "class Stack:\n    def __init__(self): self.items = []\n    def push(self, x): self.items.append(x)\n"
        "    def pop(self): return self.items.pop() if self.items else None\n    def __len__(self): return len(self.items)",
    ),
    "unittest_with_errors_of_the_answer": own(
        "import unittest\n\nclass Tests(unittest.TestCase):\n    def test_right(self):\n        self.assertEqual(check_age(20), 20)\n"
        "    def test_wrong(self):\n        with self.assertRaises(TooYoung):\n            check_age(3)\n",
        "class TooYoung(ValueError):\n    pass\ndef check_age(n):\n    if n < 18:\n        raise TooYoung(n)\n    return n",
        "class TooYoung(ValueError):\n    pass\ndef check_age(n):\n    return n",
    ),
    "a_function_that_is_passed_and_called_back": own(
        ["assert apply_all([lambda x: x + 1, str], 3) == [4, '3']"],
        "def apply_all(functions, x):\n    return [f(x) for f in functions]",
        "def apply_all(functions, x):\n    return [functions[0](x)]",
    ),
}
