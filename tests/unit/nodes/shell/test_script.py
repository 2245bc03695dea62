"""What the lexer makes of commands; ``@`` stands for a template."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill.nodes.shell.script import script_of, variable
from graphmill.nodes.shell.word import RefusedError
from support.hostile_values import MARKER, VALUES
from support.shells import SHELLS, run

ONE, TWO = (f"${{{variable(number)}}}" for number in range(2))

# Each writes its value, whole, and a NUL.
PLACES = {
    "bare": "printf '%s\\0' @",
    "bare within a word": "printf '%s\\0' a@b | sed -z 's/^a//;s/b$//'",
    "double quotes": "printf '%s\\0' \"@\"",
    "single quotes": "printf '%s\\0' '@'",
    "here-document": "cat <<E\n@\0E\n",
    "substitution": "printf '%s\\0' \"$(printf '%s.' @)\"",
}
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60) | st.sampled_from(
    list(VALUES.values())[:-2]
)

ACCEPTED = [
    ("echo @", f'echo "{ONE}"'),
    ('echo "a@b"', f'echo "a{ONE}b"'),
    ("echo 'a@b'", f"echo 'a'\"{ONE}\"'b'"),
    ("echo a@'b'@", f'echo a"{ONE}"\'b\'"{TWO}"'),
    ("echo \"$(x @ '@')\"", f'echo "$(x "{ONE}" \'\'"{TWO}"\'\')"'),
    ("cat <<E\n@ $(x @)\nE\n", f'cat <<E\n{ONE} $(x "{TWO}")\nE\n'),
    ("echo a # @ '\necho @", f'echo a #  \'\necho "{TWO}"'),
]
DATA = [
    'A=@ x; B="x@" C=@ y; D=@',
    "export C=@",
    "cat > @ < \"@\" 2>> '@' 2>&1",
    'for f in @ b; do echo "$f" @; done',
    "for f in @ b\ndo echo @\ndone",
    "for f do echo @; done",
    "case @ in a|@) x;; (b) y ;; esac; echo @",
    "x=$(case @ in a) y;; *) z @ ;; esac); echo @",
    'if [ @ = "@" ]; then x @; elif test -f @; then y; else z @; fi',
    "[ -n @ ] && ! test @",
    "f() { x @; }; f @",
    "( cd @ && ls ) | sort",
    "{ x @; } 2>&1; y @",
    "# @ ' \" `\nx @",
    "x a#b @ # it's",
    'x ${HOME:-x} "$HOME" ${1} $1@ $$@ "$$@" "$@"'.replace('"$@"', "@"),
    "sh -c 'x \"$1\"' sh @",
    "bash -o pipefail -c 'x' sh @",
    "timeout -k 1 5 nice -n 3 env A=@ x @",
    "timeout @ x @",
    "xargs -n 1 x @",
    "echo @ | xargs -0 grep x",
    "echo @ | xargs -0 sh -c 'x \"$1\"' sh",
    "echo @ | xargs -I{} mv {} x",
    "find . -exec sh -c 'x \"$1\"' sh {} \\; > @",
    "find @ -name @ -exec grep @ {} \\;",
    "set -- @ b",
    'set -- "$@" b'.replace("$@", "$*") + " @",
    '"$HOME"/bin/x @',
    "i=$((i + 1)); j=@",
    "awk -v x=@ '{print x}' @",
    "python3 -c 'x' @",
    "python3 - @ <<'E'\nx\nE\n",
    "sh x.sh @",
    "command -v @",
    "x $((1 + (2))) `date` @",
    "a && \\\nb @ |\nc @",
    "while read -r l; do x @; done < @",
    'x \\\\@ "\\\\@"',
    "x > @ y",
    "exec 3> @",
    "cat <<-E\n\ta @\n\tE\n",
    "cat <<A <<B\n@\nA\n@\nB\n",
    "x=$(cat <<E\n@\nE\n)\ny @",
    "cat <<'E'\n$ ` \" '\nE\ny @",
    "x; # a comment\n\ny @ &\nz",
    't=$(mktemp); trap \'rm -f "$t"\' EXIT; x @ > "$t"',
    "trap '' TERM; trap - EXIT; x @",
    '. "$V/bin/activate" && python3 "$V/x.py" @',
    'for f in *; do "$A" "$f"; python3 "$V/x.py" "$f"; done; x @',
    'export PATH="$HOME/bin:$PATH"; x @',
    'f=@; x "${f%.txt}" "${#f}" "${f##*/}" "${A:-y}" "$#" "${#}" "$!"',
    "sed -n 1,5p @; sed -i -e s/a/b/ -e s/c/d/ -- @; sed 1d < @",
    "docker run image sh -c 'x \"$1\"' sh @",
    'n=$(wc -l < @); expr "$n" + 1',
    "grep sh @; which python3 @",
]
REFUSED = [
    ("@", "command is named"),
    ("@ x", "command is named"),
    ("A=b @", "command is named"),
    ("> f @", "command is named"),
    ('"@" x', "command is named"),
    ("if @; then x; fi", "command is named"),
    ("x | @", "command is named"),
    ("x && y@", "command is named"),
    ("case a in b) @;; esac", "command is named"),
    ("for x in a; do @; done", "command is named"),
    ("f() { @; }", "command is named"),
    ('echo "$(@)"', "command is named"),
    ("env @", "command is named"),
    ("exec @", "command is named"),
    ("nohup @", "command is named"),
    ("timeout 5 @", "command is named"),
    ("xargs @", "command is named"),
    ("find . -exec @ \\;", "command is named"),
    ("A+=@", "command is named"),
    ("a[@]=1", "command is named"),
    ('"A"=@', "command is named"),
    ("eval @", "eval, which would parse"),
    ("eval 'x @'", "eval"),
    (". @", "parse"),
    ("sh -c @", "sh, which would parse"),
    ("sh -c 'x @'", "sh, which"),
    ("bash -xec '@'", "bash, which"),
    ("/usr/bin/bash -o pipefail -c '@'", "bash, which"),
    ("sh @", "sh, which"),
    ('$SHELL -c "@"', "not known"),
    ("$A x @", "not known"),
    ("$!eval @", "not known"),
    ("e* @", "not known"),
    ("echo @ | $A", "not known"),
    ("sh -c * @", "several words"),
    ('sh $A -c x "@"', "several words"),
    ("env $A x @", "not known"),
    ("[ $A = @ ]", "several words"),
    ("printf $A @", "format"),
    ('A=@; eval "$A"', "might hold a value"),
    ('A=@; sh -c "$A"', "might hold a value"),
    ("A=@; echo $((A + 1))", "computes"),
    ("for i in @; do echo $((i)); done", "computes"),
    ("env -i A=b sh -c '@'", "sh, which"),
    ("xargs -0 sh -c '@'", "sh, which"),
    ("find . -exec sh -c '@' \\;", "sh, which"),
    ("nice --what x @", "not known here"),
    ("env -S '@' x", "not known here"),
    ("echo @ | sh", "from its input"),
    ("sh <<E\n@\nE\n", "from its input"),
    ("echo @ | sh /dev/stdin", "from its input"),
    ("echo @ | . /dev/stdin", "from its input"),
    ("echo @ | parallel", "from its input"),
    ("echo @ | ssh host", "from its input"),
    ("echo @ | xargs sh", "from its input"),
    ("echo @ | xargs -0 sh -c", "from its input"),
    ("echo @ | xargs -I{} sh -c 'echo {}'", "from its input"),
    ("echo @ | xargs -n 1 nice env", "from its input"),
    ("echo @; find . -exec sh -c 'echo {}' \\;", "names of files"),
    ("python3 - <<E\n@\nE\n", "from its input"),
    ("python3 -c 'print(@)'", "python3, which"),
    ("perl -ne '@'", "perl, which"),
    ("awk '@'", "program of awk"),
    ("ssh host @", "ssh, which"),
    ("trap '@' EXIT", "trap"),
    ("echo `ls @`", "backticks"),
    ('echo "`ls @`"', "backticks"),
    ("cat <<E\n`@`\nE\n", "backticks"),
    ("echo $((@ + 1))", "arithmetic"),
    ("echo $(( (1) + $(x @) ))", "arithmetic"),
    ("echo $((1 + \\@))", "backslash"),
    ("echo $[@+1]", "arithmetic"),
    ("((@))", "arithmetic"),
    ("x=$((echo @) )", "arithmetic"),
    ("let x=@", "let"),
    ("declare -i x=@", "declare"),
    ("echo ${HOME:-@}", "inside ${…}"),
    ('echo "${HOME:-@}"', "inside ${…}"),
    ('echo "${HOME:-\'}" @', "read differently"),
    ("cat <<'E'\n@\nE\n", "quoted"),
    ("cat <<\\E\n@\nE\n", "quoted"),
    ("cat <<@\nx\n@\n", "no plain word"),
    ("cat <<E\n@", "not ended"),
    ("cat <<E\n@\\\nE\nE\n", "backslash"),
    ("$(cat <<E)\n@\nE\n", "outside of it"),
    ("echo \\@", "$${NAME}"),
    ('echo "\\@"', "$${NAME}"),
    ("cat <<E\n\\@\nE\n", "$${NAME}"),
    ("PATH=@ x", "PATH"),
    ("IFS=@", "IFS"),
    ("env LD_PRELOAD=@ x", "LD_PRELOAD"),
    ("export PATH=@", "PATH"),
    ("x <<< @", "<<<"),
    ("x <(y @)", "not known"),
    ("x &> @", "&>"),
    ("x >&@", "number"),
    ("[[ @ = b ]]", "[["),
    ("a=(@)", "parenthesis"),
    ("echo $'a@'", "$'"),
    ("function f { x @; }", "function"),
    ("{fd}> f @", "{NAME}>"),
    ("export @", "name"),
    ("read @", "read"),
    ("unset @", "unset"),
    ("printf @", "format"),
    ("printf -v @ x", "format"),
    ("[ @ @ ]", "operator"),
    ("[ @ = b -a @ ]", "operator"),
    ("set @", "option"),
    ("for @ in a; do x; done", "for"),
    ("echo 'a@", "not closed"),
    ('echo "@', "not closed"),
    ("echo $(x @", "not closed"),
    ("echo @ )", "not opened"),
    ("< f case @ in a) x;; esac", "redirection"),
]
LATER = [  # a value takes a way to where it is run
    "f() { sh; }; echo @ | f",
    'f() { "$1"; }; f @',
    'f() { . "$1"; }; f @',
    "for i in 1 2; do $x; x=@; done",
    "alias r=eval\nr @",
    "trap 'eval \"$x\"' EXIT; x=@",
    "x=@; eval '$x'",
    "set -- @; eval 'eval \"$1\"'",
    "sh -c '$1' sh @",
    "sh -c 'sh -c \"$1\"' sh @",
    "find . -exec bash -c 'x $(($1))' sh @ \\;",
    'x=@; . "$x"',
    'x=@; sh "$x"',
    'x=@; "$x"/run',
    "/bin/s[h] -c @",
    "x=@; PATH=$x; ls",
    "x=@; export PATH=$x; ls",
    "x=@; env PATH=$x ls",
    "for PATH in @; do ls; done",
    "x=@; : ${PATH:=$x}; ls",
    "read -r PATH < @; ls",
    'x=@; read "$x"',
    'x=@; unset "$x"',
    'x=@; printf -v "$x" y',
    'x=@; [ -v "$x" ]',
    "hash -p @ ls; ls",
    "x=@; y=$x; echo $((y))",
    "n=$(echo @); echo $((n + 1))",
    "read -r n <<E\n@\nE\necho $((n + 1))",
    "set -- @; echo $(($1))",
    "set -- @; n=$1; echo $((n))",
    'x=@; echo "${y:x:1}"',
    'x=@; echo "${y[x]}"',
    'x=@; echo "${!x}"',
    "x=@; echo ${x/a/b}",
    "declare -i n; n=@",
    "f() { local -i n; n=@; }; f",
    "docker exec c sh -c @",
    'docker exec c bash -ec "ls @"',
    "uv run python3 -c @",
    'sed "s/a/@/" f',
    "sed -n -e 1p -e @ f",
    'x=@; sed "s/a/$x/"',
    "echo @ | awk -f -",
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
def test_where_a_value_would_be_parsed_it_is_refused(command, why):
    with pytest.raises(RefusedError) as caught:
        script(command)
    assert why in str(caught.value)


@pytest.mark.parametrize("command", LATER)
def test_where_a_value_is_parsed_later_it_is_refused(command):
    with pytest.raises(RefusedError):
        script(command)


def test_prompts_that_run_a_value_are_refused():
    with pytest.raises(RefusedError, match="not known to every sh"):
        script_of(("x=", '; echo "${x@P}"'))


def test_scripts_within_scripts_are_read_to_some_depth():
    command = "x"
    for _ in range(6):
        command = f"eval {_escaped(command)}"
    with pytest.raises(RefusedError, match="into a file"):
        script_of((f"{command}; echo ", ""))


def _escaped(text):
    return "".join([f"\\{letter}" for letter in text])


def test_a_dollar_right_before_a_value_is_refused():
    with pytest.raises(RefusedError, match="right before"):
        script_of(("echo $", ""))


def test_a_command_without_templates_is_taken_as_it_is():
    assert script_of(("eval `x` '",)) == "eval `x` '"


@pytest.mark.parametrize("name", SHELLS)
@pytest.mark.parametrize("place", PLACES)
def test_every_hostile_value_arrives_unchanged(name, place, tmp_path):
    command = PLACES[place].replace("\0", "\n")
    for start in range(0, len(VALUES), 8):
        values = list(VALUES.values())[start : start + 8]
        done = run(name, "\n".join([command] * len(values)), values, folder=tmp_path)
        assert done.stdout.decode() == "".join(_written(place, value) for value in values)
    assert not (tmp_path / MARKER).exists()


@pytest.mark.parametrize("name", SHELLS)
@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(TEXTS, min_size=1, max_size=12),
    places=st.lists(st.sampled_from(sorted(PLACES)), min_size=12, max_size=12),
)
def test_any_text_arrives_unchanged_in_any_place(name, values, places):
    commands = "\n".join(PLACES[place].replace("\0", "\n") for place, _ in zip(places, values, strict=False))
    done = run(name, commands, values)
    assert done.stdout.decode() == "".join(_written(place, value) for place, value in zip(places, values, strict=False))


def _written(place, value):
    return {"here-document": f"{value}\n", "substitution": f"{value}.\0"}.get(place, f"{value}\0")


# Pieces of scripts, harmless by themselves; most stand for syntax, some for commands that parse.
PIECES = [
    *(
        "@",
        "@",
        "@",
        "@ ",
        " @",
        '"@"',
        "'@'",
        '"$(',
        "$(",
        ")",
        "`",
        "${",
        "}",
        "${A:-",
        "$((",
        "))",
        "'",
        '"',
        "\\",
        "#",
        "\\\n",
        "\n",
        " ",
        " ",
    ),
    *(
        ";",
        "&&",
        "|",
        "||",
        " & ",
        "(",
        "{ ",
        ";}",
        "<<E\n",
        "\nE\n",
        "<<'E'\n",
        "<<-E\n",
        "\tE\n",
        "> ",
        "< ",
        "2>&1",
        ">&",
        "&>",
        "<<<",
        "<(",
    ),
    *(
        "echo ",
        "printf %s ",
        "cat ",
        ":",
        "case ",
        " in ",
        "*)",
        " ;; ",
        "esac",
        "for i in ",
        "do ",
        "; do ",
        " done",
        "if ",
        "then ",
        "fi",
        "f() ",
    ),
    *(
        "A=",
        "$A",
        "$1",
        '"$1"',
        "[ ",
        " ]",
        " = ",
        "! ",
        "test -n ",
        "$",
        "$$",
        "$'",
        '$"',
        "~",
        "[",
        "{",
        "*",
        "?",
        "-",
        "2",
        "E",
        "[[ ",
        "((",
    ),
    *(
        "eval ",
        "sh -c ",
        "export B=",
        "set -- ",
        "let ",
        "x=$(",
        "command ",
        "exec ",
        "env ",
        "xargs ",
        "read ",
        "alias x=",
        "time ",
        "function f ",
    ),
]
TRAPS = [
    *(
        f"$(touch {MARKER})",
        f"`touch {MARKER}`",
        f"; touch {MARKER};",
        f"\ntouch {MARKER}\n",
        f"'; touch {MARKER}; '",
        f'"; touch {MARKER}; "',
    ),
    *(
        f"a[$(touch {MARKER})]",
        f") ; touch {MARKER} ; (",
        f"E\ntouch {MARKER}\n",
        f"*) touch {MARKER};;",
        f"touch {MARKER}",
    ),
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
    except RefusedError:
        return
    with TemporaryDirectory() as folder:
        run(name, command, values, folder=folder)
        assert not (Path(folder) / MARKER).exists()


@settings(max_examples=2000, deadline=None)
@given(
    st.lists(st.sampled_from([*PIECES, "@", "\\", "\\\n", "$((", "))", "${", "}", "<<E\n", "\nE\n"]), max_size=14).map(
        "".join
    )
)
def test_every_command_is_refused_or_has_each_of_its_values_once(command):
    try:
        made = script(command)
    except RefusedError:
        return
    assert all(made.count(f"${{{variable(number)}}}") <= 1 for number in range(command.count("@")))
