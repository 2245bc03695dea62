"""Which answers equal a reference answer."""

import pytest

from graphmill.scoring.math.compare import Comparison
from graphmill.scoring.math.symbolic import same_equation, same_expression

EQUAL = r"""
42 === 42
42 === 42.0
42 === +42
-7 === −7
0.5 === \frac{1}{2}
0.5 === 1/2
.35625 === 0.35625
\frac43 === \dfrac{4}{3}
\frac 59 === 5/9
\frac9{19} === \frac{9}{19}
-\frac{1}{2} === \frac{-1}{2}
-\frac{1}{2} === -0.5
\frac{6}{4} === \frac{3}{2}
1\frac{4}{5} === \frac{9}{5}
1\frac{4}{5} === 1.8
137 \frac{1}{2} === 137.5
3 1/2 === \frac{7}{2}
10,\!080 === 10080
11,\! 111,\! 100 === 11111100
58,500 === 58500
58{,}500 === 58,500
1.5 \times 10^{-3} === 0.0015
1.5 \times 10^{-3} === 1.5e-3
.0000672 === 6.72 \cdot 10^{-5}
10^{6} === 1,000,000
\$32,\!348 === 32348
\$18.90 === 18.9
\$18.90 === 18.9 dollars
5.4 \text{ cents} === 5.4
5.4 \text{ cents} === 5.4 cents
28\% === 28
28\% === 28 percent
28 === 28\%
90^\circ === 90
90^\circ === 90^{\circ}
90^\circ === 90°
90^\circ === 90 degrees
\frac{270}7\text{ degrees} === \frac{270}{7}
15\mbox{ cm}^2 === 15
15\mbox{ cm}^2 === 15 \text{ square centimeters}
864 \mbox{ inches}^2 === 864 \text{ sq in}
5\text{ m} === 5 m
5 === 5 \text{ meters}
60 \text{ mph} === 60 miles per hour
2516_8 === 2516_{8}
2516_8 === 2516_{\text{eight}}
2516_8 === 2516
\sqrt{50} === 5\sqrt{2}
11\sqrt2 === 11 \sqrt{2}
\frac{\sqrt{3}}{3} === \frac{1}{\sqrt{3}}
2^3^2 === 512
5! === 120
\binom{5}{2} === 10
6 - 5i === -5i + 6
\frac{3\pi}{2} === 1.5\pi
2k+2 === 2(k+1)
(a+5)(b+2) === ab + 2a + 5b + 10
x^3+3x-6 === 3x + x^3 - 6
\cot x === \frac{\cos x}{\sin x}
\frac{11+9a}{20} === 0.55 + 0.45a
x=5 === 5
5 === x = 5
f(x) = 2x + 3 === 2x+3
y = 2x + 3 === 2x + 3
y = 2x + 3 === y = 3 + 2x
5x - 7y + 11z + 4 = 0 === -5x + 7y - 11z - 4 = 0
3x-y+13=0 === y = 3x + 13
1,-2 === -2, 1
1,-2 === x = 1 \text{ or } x = -2
3, 5, 7 === 3, 5 and 7
1 \pm \sqrt{19} === 1 + \sqrt{19}, 1 - \sqrt{19}
\{1\pm\sqrt{5},-2\} === \{-2, 1+\sqrt{5}, 1-\sqrt{5}\}
\left( 3, \frac{\pi}{2} \right) === (3, \pi/2)
(6,31,-1) === (6, 31, -1.0)
(3,4] === 3 < x \le 4
x \in [-2,7] === [-2, 7]
x \in [-2,7] === -2 \le x \le 7
(2,\infty) === x > 2
(2,\infty) === 2 < x
(-\infty, 0] === x \leq 0
(0,9) \cup (9,36) === (9, 36) \cup (0, 9)
\begin{pmatrix} -1/3 \\ 2/3 \end{pmatrix} === \begin{bmatrix} -\frac{1}{3} \\ \frac{2}{3} \end{bmatrix}
\begin{pmatrix} -1 & 0 \\ 0 & -1 \end{pmatrix} === \begin{pmatrix}-1&0\\0&-1\end{pmatrix}
\text{Evelyn} === Evelyn
\text{Evelyn} === evelyn
\text{(C)} === C
\text{(C)} === (C)
\text{even} === \textbf{even}
$\pi$ === \pi
\[12\] === 12
\boxed{12} === 12
0.\overline{3} === \frac{1}{3}
0.3\overline{6} === \frac{11}{30}
\emptyset === \varnothing
x \in \mathbb{R} === (-\infty, \infty)
\text{5 hours} === 5
(2+3i)(1-i) === 5 + i
e^{i\pi} === -1
a \cdot b === ab
x=2, y=3 === y=3, x=2
x=2, y=3 === (2,3)
49 === 7^2 = 49
30 === m\angle A = 30
\text{June 20} === \text{June } 20
"""

DIFFERENT = r"""
42 === 43
42 === -42
42 === 42.5
42 === 4.2
0.5 === \frac{2}{1}
\frac{1}{3} === 0.333
\frac{1}{3} === 0.3333333333
0.33 === \frac{1}{3}
\frac{14}{3} === \frac{3}{14}
1\frac{4}{5} === 1\frac{5}{4}
1\frac{4}{5} === \frac{14}{5}
10,\!080 === 10,081
10080 === 10,80
1.5 \times 10^{-3} === 1.5 \times 10^{3}
1e-20 === 2e-20
10^{-20} \pi === 2 \cdot 10^{-20} \pi
1e400000000 === 1
1 === 1e400000000
\$18.90 === 18.09
\$5 === 5 cents
5 cm === 5 m
5 \text{ cm} === 5 \text{ cm}^2
5 \text{ m} === 500 \text{ cm}
60 \text{ mph} === 60 \text{ km/h}
28\% === 0.28
0.28 === 28\%
28\% === 29\%
90^\circ === 91^\circ
90^\circ === \frac{\pi}{2}
2516_8 === 2516_7
2516_8 === 2517_8
2516_8 === 1358
2516 === 2516_8
\sqrt{50} === 2\sqrt{5}
\sqrt{2} === 1.4142136
16\sqrt{3} === 27.7128129211
\frac{\sqrt{3}}{3} === \frac{3}{\sqrt{3}} + 1
2^3^2 === 64
6 - 5i === 6 + 5i
\pi === 3.14159265
\pi === 3
2k+2 === 2k+1
2k+2 === 2n+2
2k === 2
2 === 2k
(a+5)(b+2) === (a+2)(b+5)
x^3+3x-6 === x^3-3x-6
\cot x === \tan x
\sqrt{x^2} === x + 1
x=5 === 6
x=5 === y=5
y = 2x + 3 === y = 2x - 3
y = 2x + 3 === y = 3x + 2
3x-y+13=0 === 3x+4y+14=0
5x - 7y + 11z + 4 = 0 === 5x - 7y + 11z - 4 = 0
1,-2 === 1, 2
1,-2 === 1
1,-2 === 1, -2, 3
1,-2 === 1, 1
3, 5, 7 === 3, 5
1 \pm \sqrt{19} === 1 + \sqrt{19}
1 \pm \sqrt{19} === -1 \pm \sqrt{19}
\{1\pm\sqrt{5},-2\} === \{1\pm\sqrt{5},2\}
\{1\pm\sqrt{5},-2\} === (1+\sqrt{5}, 1-\sqrt{5}, -2)
\left( 3, \frac{\pi}{2} \right) === \left( \frac{\pi}{2}, 3 \right)
(6,31,-1) === (6,31)
(6,31,-1) === (6,31,1)
(6,31,-1) === [6,31,-1]
(3,4] === [3,4]
(3,4] === (3,4)
x \in [-2,7] === (-2,7]
(2,\infty) === [2,\infty)
(2,\infty) === x < 2
(-\infty, 0] === (0, \infty)
(0,9) \cup (9,36) === (0,36)
(0,9) \cup (9,36) === (0,9]  \cup (9,36)
\begin{pmatrix} -1/3 \\ 2/3 \end{pmatrix} === \begin{pmatrix} -1/3 \\ -2/3 \end{pmatrix}
\begin{pmatrix} -1 & 0 \\ 0 & -1 \end{pmatrix} === \begin{pmatrix} -1 \\ 0 \end{pmatrix}
\text{Evelyn} === Navin
\text{(C)} === (D)
\text{even} === odd
x > 2 === x \ne 2
12 === \text{twelve apples}
x+y === x-y
a+b === ab
k === K
\frac{1}{0} === \frac{2}{0}
x=2, y=3 === x=3, y=2
x=2, y=3 === y=2, x=3
0.\overline{3} === 0.3
0 === \emptyset
\ln 2 === \log_{10} 2
x^{2y} === x^{2}y
123456789012345678901234567890 === 123456789012345678901234567891
"""


@pytest.fixture(scope="module")
def comparison():
    return Comparison(same_expression, same_equation)


def _pairs(table):
    return [tuple(line.split(" === ")) for line in table.strip().splitlines()]


@pytest.mark.parametrize(("gold", "answer"), _pairs(EQUAL))
def test_these_are_equal(comparison, gold, answer):
    assert comparison.are_equal(gold, answer)


@pytest.mark.parametrize(("gold", "answer"), _pairs(DIFFERENT))
def test_these_are_not_equal(comparison, gold, answer):
    assert not comparison.are_equal(gold, answer)
