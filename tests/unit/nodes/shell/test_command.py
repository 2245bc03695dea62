"""Where values may stand in a command; ``@`` is a template."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill.nodes.shell.command import ShellValueError, script_of, variable
from support.hostile_values import MARKER, VALUES
from support.shells import SHELLS, run

ONE, TWO = (f"${{{variable(number)}}}" for number in range(2))

# Each writes its value, whole, and a NUL.
PLACES = {
    "bare": "printf '%s\\0' @",
    "within a word": "printf '%s\\0' a@b | sed -z 's/^a//;s/b$//'",
    "double quotes": "printf '%s\\0' \"@\"",
    "within double quotes": "printf '%s\\0' \"$(printf %s a)@$((1 + 1))\" | sed -z 's/^a//;s/2$//'",
    "assigned": "V=@; printf '%s\\0' \"$V\"",
    "pattern": "case @ in @) printf '%s\\0' @;; *) echo other;; esac",
    "subshell": "( { printf '%s\\0' @; } )",
    "by -c": 'sh -c \'printf "%s\\0" "$1"\' sh @',
}
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60) | st.sampled_from(
    list(VALUES.values())[:-2]
)

ACCEPTED = [
    ("echo @", f'echo "{ONE}"'),
    ('echo "a@b"', f'echo "a{ONE}b"'),
    ("echo a@'b'@", f'echo a"{ONE}"\'b\'"{TWO}"'),
    ("echo a # @ '\necho @", f'echo a #  \'\necho "{TWO}"'),
    ("cat <<E > @\nx ' \" $(\nE\n", f'cat <<E > "{ONE}"\nx \' " $(\nE\n'),
]
DATA = [
    'A=@ x; B="x@" C=@ y; D=@',
    "export C=@",
    'cat > @ < "@" 2>> @ 2>&1',
    'for f in @ b; do echo "$f" @; done',
    "for f in @ b\ndo echo @\ndone",
    "case @ in @) x;; (b) y ;; esac; echo @",
    'if [ @ = "@" ]; then x @; elif test -f @; then y; else z @; fi',
    "[ -n @ ] && ! test @",
    "[ -e @ ] || [ 1 -le @ ]",
    "f() { x @; }; f @",
    "( cd @ && ls ) | sort",
    "{ x @; } 2>&1; y @",
    "# @ ' \" `\nx @",
    "x a#b @ # it's",
    'x ${HOME:-x} "$HOME" ${1} $1@ $$@ "$$@" "$*@" "${A#*/}@"',
    "sh -c 'x \"$1\"' sh @",
    "bash -euo pipefail -c 'x' sh @",
    "bash -co pipefail 'x' sh @",
    "timeout -k 1 5 nice -n 3 env A=@ x @",
    "xargs -n 1 x @",
    "echo @ | xargs -0 sh -c 'x \"$1\"' sh",
    "find . -exec sh -c 'x \"$1\"' sh {} \\; > @",
    "find @ -name @ -exec grep @ {} \\;",
    "set -- @ b",
    '"$HOME"/bin/x @',
    "i=$((i + 1)); j=@",
    "n=$(wc -l < f | tr -d ' '); x @",
    'x "$(ls "$HOME" | (wc -l))" @',
    "awk -v x=@ '{print x}' @",
    "python3 -m x @",
    "sh x.sh @",
    "command -v @",
    "a && \\\nb @ |\nc @",
    "while read -r l; do x @; done < @",
    'x \\\\@ "\\\\@"',
    "exec 3> @",
    "x; # a comment\n\ny @ &\nz",
    't=$(mktemp); trap \'rm -f "$t"\' EXIT; x @ > "$t"',
    '. "$V/bin/activate" && python3 "$V/x.py" @',
    "grep -v @; head -n 3 @; tar -czf @ x; gzip -dc @; jq . @",
    "printf '%s' -v@",
    "cat <<E; x @\nE\n",
]
REFUSED = [
    ("@", "a command's name"),
    ("@ x", "a command's name"),
    ("A=b @", "a command's name"),
    ("> f @", "a command's name"),
    ("2> f @", "a command's name"),
    ("{fd}> f @", "a command's name"),
    ('"@" x', "a command's name"),
    ("if @; then x; fi", "a command's name"),
    ("x | @", "a command's name"),
    ("x && y@", "a command's name"),
    ("case a in b) @;; esac", "a command's name"),
    ("for x in a; do @; done", "a command's name"),
    ("for x do @; done", "a command's name"),
    ("f() { @; }", "a command's name"),
    ("f() @", "a command's name"),
    ("function f { @; }", "a command's name"),
    ("command -p @ x", "a command's name"),
    ("builtin @", "a command's name"),
    ("exec @", "a command's name"),
    ("time -p @", "a command's name"),
    ("A+=@", "a command's name"),
    ("a[@]=1", "a command's name"),
    ("eval @", "follows eval"),
    ("eval 'x @'", "single quotes"),
    ("command eval @", "follows eval"),
    ("sh -c @", "-c or -e"),
    ('sh -c "x @"', "-c or -e"),
    ("sh -c 'x @'", "single quotes"),
    ('bash -xec "@"', "-c or -e"),
    ('/usr/bin/bash -o pipefail -c "@"', "-c or -e"),
    ('bash -c -o pipefail "@"', "-c or -e"),
    ('bash -co pipefail "@"', "-c or -e"),
    ("sh -c -- @", "-c or -e"),
    ("sh -'c' @", "-c or -e"),
    ("sh -c $A @", "-c or -e"),
    ("sh -c$A @", "-c or -e"),
    ("sh -$A'c' @", "-c or -e"),
    ("sh +c @", "-c or -e"),
    ("bash +xc @", "-c or -e"),
    ("/bin/dash -Vc @", "-c or -e"),
    ("env -i zsh -yc @", "-c or -e"),
    ("$SHELL -Vc @", "-c or -e"),
    ('$SHELL -c "@"', "-c or -e"),
    ("env -i A=b sh -c @", "-c or -e"),
    ("find . -exec sh -c @ \\;", "-c or -e"),
    ("find . -exec @ \\;", "-c or -e"),
    ('python3 -c "print(@)"', "-c or -e"),
    ('perl -lne "@"', "-c or -e"),
    ("perl -e@", "-c or -e"),
    ("node --eval=@", "-c or -e"),
    ("su --command @", "-c or -e"),
    ("echo $(@)", "inside $(…)"),
    ('echo "$(x @)"', "inside $(…)"),
    ("echo $(x \"@\" '@')", "inside $(…)"),
    ("echo $(x $(y @))", "inside $(…)"),
    ("$(case x in a) y;; esac) @", "case"),
    ("$(x # it's\n) @", "comment"),
    ("trap @ EXIT", "trap"),
    ("alias r=@", "alias"),
    ("echo `ls @`", "backticks"),
    ('echo "`ls`" @', "backticks"),
    ("echo $((@ + 1))", "$((…))"),
    ("echo $[@+1]", "arithmetic"),
    ("((@))", "arithmetic"),
    ("x=$((echo @) )", "$((…))"),
    ("let x=@", "let"),
    ("declare -i x=@", "declare"),
    ("f() { local @; }", "local"),
    ("read @", "read"),
    ("unset @", "unset"),
    ("[[ @ -eq 1 ]]", "[["),
    ("[ -v @ ]", "variable"),
    ("[ @ @ ]", "operator"),
    ("[ @ @ = b ]", "operator"),
    ("printf @", "format"),
    ("printf -v @ x", "variable"),
    ("printf -v@ x", "variable"),
    ('printf "-v@" x', "variable"),
    ("printf -va@ x", "variable"),
    ("printf -v$A @ x", "variable"),
    ("\\printf -v@ x", "variable"),
    ("builtin printf -v@ x", "variable"),
    ("command printf -v@ x", "variable"),
    ("if printf -v@ x; then y; fi", "variable"),
    ("echo ${HOME:-@}", "${…}"),
    ('echo "${HOME:-@}"', "${…}"),
    ('echo "${HOME:-\'}" @', "${…}"),
    ("echo ${ x;} @", "${…}"),
    ("cat <<E\n@\nE\n", "here-document"),
    ("cat <<-E\nE\nx @", "here-document"),
    ("cat <<@\nx\n@\n", "here-document"),
    ("cat <<<@", "here-document"),
    ("x=$(cat <<E\nE\n) y @", "here-document"),
    ("echo '@'", "single quotes"),
    ("echo \\@", "$${NAME}"),
    ('echo "\\@"', "$${NAME}"),
    ("x >&@", "number"),
    ("x 2>& @", "number"),
    ("PATH=@ x", "PATH"),
    ("IFS=@", "IFS"),
    ("env LD_PRELOAD=@ x", "LD_PRELOAD"),
    ("export RANDOM=@", "RANDOM"),
    ("for RANDOM in @; do x; done", "RANDOM"),
    ("x <(y @)", "not known"),
    ("a=(x [@]=1)", "parenthesis"),
    ("{a[@]}> f", "a command's name"),
    ("exec {a[@]}> f", "a command's name"),
    ("x {a,@}", "braces"),
    ("echo $'a' @", "$'…'"),
    ("ev\\\nal @", "continued"),
    ("x &\\\n& y @", "continued"),
    ('echo "$\\\n(x" @', "backslash follows a $"),
    ("echo 'a@", "not closed"),
    ('echo "@', "not closed"),
    ("echo @ $(x", "not closed"),
]


def script(command):
    return script_of(tuple(command.split("@")))


@pytest.mark.parametrize(("command", "written"), ACCEPTED)
def test_a_variable_is_written_for_its_place(command, written):
    assert script(command) == written


@pytest.mark.parametrize("command", DATA)
def test_where_a_value_is_data_it_may_stand(command):
    assert script(command).count(variable(0)) >= 1 or command.startswith("#")


@pytest.mark.parametrize(("command", "why"), REFUSED)
def test_where_a_value_might_be_parsed_it_is_refused(command, why):
    with pytest.raises(ShellValueError) as caught:
        script(command)
    assert why in str(caught.value)


def test_a_dollar_right_before_a_value_is_refused():
    for texts in (("echo $", ""), ('echo "$', '"')):
        with pytest.raises(ShellValueError, match="right before"):
            script_of(texts)


def test_words_that_may_vanish_are_not_taken_for_the_code():
    with pytest.raises(ShellValueError, match="-c or -e"):
        script_of(('sh -c "$@" ', ""))


def test_a_command_without_templates_is_taken_as_it_is():
    assert script_of(("eval `x` '",)) == "eval `x` '"


@pytest.mark.parametrize("name", SHELLS)
@pytest.mark.parametrize("place", PLACES)
def test_every_hostile_value_arrives_unchanged(name, place, tmp_path):
    command = PLACES[place]
    for start in range(0, len(VALUES), 8):
        values = list(VALUES.values())[start : start + 8]
        times = command.count("@")
        given = [value for value in values for _ in range(times)]
        done = run(name, "\n".join([command] * len(values)), given, folder=tmp_path)
        assert done.stdout.decode() == "".join(f"{value}\0" for value in values)
    assert not (tmp_path / MARKER).exists()


@pytest.mark.parametrize("name", SHELLS)
@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(TEXTS, min_size=1, max_size=12),
    places=st.lists(st.sampled_from(sorted(PLACES)), min_size=12, max_size=12),
)
def test_any_text_arrives_unchanged_in_any_place(name, values, places):
    commands = [PLACES[place] for place, _ in zip(places, values, strict=False)]
    given = [value for command, value in zip(commands, values, strict=True) for _ in range(command.count("@"))]
    done = run(name, "\n".join(commands), given)
    assert done.stdout.decode() == "".join(f"{value}\0" for value in values)


# Pieces of scripts, harmless by themselves: syntax, and commands that parse their arguments.
_SYNTAX = """  ¦ ¦"$(¦$(¦)¦`¦${¦}¦${A:-¦$((¦))¦'¦"¦\\¦#¦;¦&&¦|¦||¦ & ¦(¦{ ¦;}¦> ¦< ¦2>&1¦>&¦&>¦<<<¦<(¦{x}>¦A=¦a[¦]=1¦a=(¦[ ¦ ]¦ = ¦! ¦\
test -n ¦[ -v ¦$¦$$¦$'¦$"¦~¦[¦{¦*¦?¦-¦2¦E¦[[ ¦((¦ -eq 1¦echo ¦printf ¦printf -v ¦cat ¦:¦case ¦ in ¦*)¦ ;; ¦esac¦for i in ¦do ¦; do ¦ done¦\
if ¦then ¦fi¦f() ¦eval ¦sh -c ¦-c ¦-o ¦export B=¦let ¦x=$(¦command ¦builtin ¦exec ¦env ¦RANDOM=¦time ¦function f """
_LINES = ["\n", "\\\n", "<<E\n", "\nE\n", "<<'E'\n", "<<-E\n", "\tE\n"]
PIECES = ["@", "@", "@", " @", " @ ", '"@"', "'@'", *_LINES, *_SYNTAX.split("¦")]
_RUN = f"touch {MARKER}"
TRAPS = [
    *(f"$({_RUN})", f"`{_RUN}`", f"; {_RUN};", f"\n{_RUN}\n", f"'; {_RUN}; '", f'"; {_RUN}; "', f") ; {_RUN} ; ("),
    *(f"a[$({_RUN})]", f"-va[$({_RUN})]", f"E\n{_RUN}\n", f"*) {_RUN};;", _RUN, "eval", "-v", "-c"),
]
COMMANDS = st.builds(
    lambda start, pieces: start + "".join(pieces),
    st.sampled_from(["echo ", "", "x="]),
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=14),
)


@pytest.mark.parametrize("name", SHELLS)
@settings(max_examples=500, deadline=None)
@given(command=COMMANDS, values=st.lists(st.sampled_from(TRAPS), min_size=14, max_size=14))
def test_whatever_is_accepted_runs_no_value(name, command, values):
    try:
        script(command)
    except ShellValueError:
        return
    with TemporaryDirectory() as folder:
        run(name, command, values, folder=folder)
        assert not (Path(folder) / MARKER).exists()


@settings(max_examples=1000, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_every_command_is_refused_or_has_each_of_its_values_once(command):
    try:
        made = script(command)
    except ShellValueError:
        return
    assert all(made.count(f"${{{variable(number)}}}") <= 1 for number in range(command.count("@")))
