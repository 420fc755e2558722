#!/usr/bin/env python3
"""`strata completions`, in the shells themselves. Usage: completions_test.py STRATA. bash, zsh and fish are Debian's:
scripts/install.sh installs them, and without them the test fails."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

# Completes the words of COMP_WORDS, the last of which is being written.
BASH = r"""
. "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
compopt() { :; }  # there is no line that is edited
_strata
printf '%s\n' "${COMPREPLY[@]}"
"""

# A terminal with a zsh in it, in which a line is typed, and tab: what its completion finds is printed.
ZSH = r"""
zmodload zsh/zpty
zpty line zsh -f -i
wait_for() {
  local seen part
  repeat 6000; do
    while zpty -r -t line part 2>/dev/null; do seen+=$part; done
    if [[ $seen == *$1* ]]; then print -rn -- "$seen"; return 0; fi
    sleep 0.02
  done
  print -r -- "no $1 in: $seen"; return 1
}
zpty -w line "PS1=; autoload -Uz compinit; compinit -D -u; source $1; source $2; print RE''ADY"
wait_for READY >/dev/null || exit 1
zpty -w -n line "$3"$'\t'
wait_for LISTED
zpty -d line
"""
ZSH_WITHIN = r"""
compadd() {
  builtin compadd "$@"
  local result=$?
  local -a all
  if [[ " $* " != *" -"[OAD]" "* ]]; then
    builtin compadd -O all "$@"
    (( $#all > 0 )) && print -rl -- "match:"${^all}
  fi
  return $result
}
_strata_listed() { print -r -- LIST''ED }
comppostfuncs=(_strata_listed)
"""


def shell(*words):
    made = subprocess.run(words, cwd=FOLDER.name, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=300, check=False)
    if made.returncode != 0 or made.stderr:
        raise AssertionError(f"{words}: {made.returncode}\n{made.stdout.decode()}\n{made.stderr.decode()}")
    return made.stdout.decode()


def strata(*words):
    return shell(STRATA, *words)


def setUpModule():
    global FOLDER, COMMANDS  # pylint: disable=global-variable-undefined
    FOLDER = tempfile.TemporaryDirectory()
    folder = pathlib.Path(FOLDER.name)
    for name in ("bash", "zsh", "fish"):
        (folder / name).write_text(strata("completions", name))
    (folder / "within.zsh").write_text(ZSH_WITHIN)
    (folder / "a program.strata").write_text("")
    (folder / "other.txt").write_text("")
    help_text = strata("--help").split("Subcommands:")[1]
    COMMANDS = re.findall(r"^  ([a-z]+)  ", help_text, re.M)


def tearDownModule():
    FOLDER.cleanup()


def options_of(command):
    """As --help lists them."""
    return set(re.findall(r"(?m)^  (?:-\w,)?(--[a-z-]+)", strata(command, "--help")))


class Shell(unittest.TestCase):
    """What all three must do; `complete` takes the words of a line, and returns what may take the place of the last."""

    def complete(self, *words):
        raise NotImplementedError

    def check_all(self):
        self.assertEqual(set(self.complete("")), set(COMMANDS))
        self.assertGreaterEqual(len(COMMANDS), 14)
        for command in COMMANDS:
            wanted = options_of(command)
            self.assertGreaterEqual(len(wanted), 2, command)  # --help and --quiet, at the least
            self.assertLessEqual(wanted, set(self.complete(command, "--")), command)
        self.assertEqual(set(self.complete("show", "--format", "")), {"text", "svg", "html"})
        self.assertEqual(self.complete("show", "--format", "h"), ["html"])
        self.assertEqual(set(self.complete("completions", "")), {"bash", "zsh", "fish"})
        self.assertEqual(set(self.complete("ver")), {"verify"})
        self.assertIn("a program.strata", self.complete("show", "a"))


class Bash(Shell):
    def complete(self, *words):
        return shell("bash", "-c", BASH, "bash", f"{FOLDER.name}/bash", "strata", *words).split("\n")[:-1]

    def test_completes(self):
        self.check_all()

    def test_values_after_an_equals_sign(self):
        self.assertEqual(set(self.complete("show", "--format", "=", "")), {"text", "svg", "html"})
        self.assertEqual(self.complete("show", "--format", "=", "s"), ["svg"])
        self.assertEqual(set(self.complete("show", "--format", "=")), {"text", "svg", "html"})

    def test_numbers_have_no_completions(self):
        self.assertEqual(self.complete("optimize", "--threads", ""), [""])

    def test_is_loaded_for_strata(self):
        self.assertIn("_strata", shell("bash", "-c", f". {FOLDER.name}/bash; complete -p strata"))


class Fish(Shell):
    def complete(self, *words):
        line = " ".join(["strata", *words])
        made = shell("fish", "--no-config", "-c", f"source {FOLDER.name}/fish; complete -C {line!r}")
        return [one.split("\t")[0].replace("\\ ", " ") for one in made.split("\n")[:-1]]

    def test_completes(self):
        self.check_all()

    def test_tells_what_options_do(self):
        made = shell("fish", "--no-config", "-c", f"source {FOLDER.name}/fish; complete -C 'strata show --form'")
        self.assertEqual(made, "--format\ttext (canonical), svg or html\n")


class Zsh(Shell):
    def complete(self, *words):
        made = shell("zsh", "-f", "-c", ZSH, "zsh", f"{FOLDER.name}/zsh", f"{FOLDER.name}/within.zsh",
                     " ".join(["strata", *words]))
        return [one.replace("\\ ", " ") for one in re.findall(r"match:([^\r\n]*)", made)]

    def test_completes(self):
        self.check_all()

    def test_has_every_option(self):
        script = pathlib.Path(FOLDER.name, "zsh").read_text()
        for command in COMMANDS:
            part = script.split(f"\n    {command})\n")[1].split(";;")[0]
            for option in options_of(command):
                self.assertRegex(part, rf"'\*{option}=?\[", command)


if __name__ == "__main__":
    STRATA = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
