"""Programs in every language of this host: compiled, run, and told apart on failure."""

import asyncio
import time

import pytest

from assay_sandbox.languages.jvm import java_names, scala_names
from assay_sandbox.languages.languages import LANGUAGES
from assay_sandbox.sandbox import LocalSandbox
from assay_shared.errors import InvalidInput
from assay_shared.types import (
    Checker,
    ExecutionRequest,
    ExecutionResult,
    Limits,
    Status,
    StdinCase,
    TestRequest,
)
from tests.unit.sandbox.conftest import MakeSandbox

pytestmark = pytest.mark.asyncio(loop_scope="module")

GENEROUS = Limits(cpu_time_s=20.0, wall_time_s=60.0)
#: Their runtimes read /proc/self/maps, which programs cannot where they see the host's /proc.
NEED_NAMESPACES = {"csharp"}
CPP_SUM = (
    "#include <bits/stdc++.h>\n"
    "int main() { int a, b; std::cin >> a >> b; std::cout << a + b << std::endl; }"
)
SUMS = {
    "python": "a, b = map(int, input().split())\nprint(a + b)",
    "c": (
        "#include <stdio.h>\n"
        'int main() { int a, b; scanf("%d %d", &a, &b); printf("%d\\n", a + b); }'
    ),
    "cpp17": CPP_SUM,
    "cpp20": CPP_SUM + "\nstatic_assert(__cplusplus > 201703L);",
    "java": (
        "import java.util.Scanner;\n"
        "class Reader { final Scanner in = new Scanner(System.in); }\n"
        "public class Solution {\n"
        "    record Pair(int a, int b) { int sum() { return a + b; } }\n"
        "    public static void main(String[] arguments) {\n"
        "        Scanner in = new Reader().in;\n"
        "        System.out.println(new Pair(in.nextInt(), in.nextInt()).sum());\n"
        "    }\n"
        "}"
    ),
    "javascript": (
        "const [a, b] = require('fs').readFileSync(0, 'utf8').split(' ').map(Number)\n"
        "console.log(a + b)"
    ),
    "typescript": (
        "import * as fs from 'fs'\n"
        "const [a, b]: number[] = fs.readFileSync(0, 'utf8').split(' ').map(Number)\n"
        "console.log(a + b)"
    ),
    "go": (
        'package main\nimport "fmt"\n'
        "func main() { var a, b int; fmt.Scan(&a, &b); fmt.Println(a + b) }"
    ),
    "rust": (
        "fn main() {\n"
        "    let mut line = String::new();\n"
        "    std::io::stdin().read_line(&mut line).unwrap();\n"
        "    let sum: i64 = line.split_whitespace().map(|x| x.parse::<i64>().unwrap()).sum();\n"
        '    println!("{}", sum);\n'
        "}"
    ),
    "bash": "read a b\necho $((a + b))",
    "scala": (
        "object Main extends App {\n"
        "  println(scala.io.StdIn.readLine().split(' ').map(_.toInt).sum)\n"
        "}"
    ),
    "kotlin_script": "println(readLine()!!.split(' ').map { it.toInt() }.sum())",
    "csharp": (
        "class Sum { static void Main() {\n"
        "    Console.WriteLine(Console.ReadLine().Split().Select(int.Parse).Sum());\n"
        "} }"
    ),
    "php": "echo array_sum(explode(' ', trim(fgets(STDIN)))), PHP_EOL;",
    "lua": "print(io.read('n') + io.read('n'))",
    "perl": 'my ($a, $b) = split " ", <STDIN>; print $a + $b, "\\n";',
    "ruby": "puts gets.split.sum(&:to_i)",
    "r": "cat(sum(scan(file('stdin'), quiet = TRUE)), '\\n', sep = '')",
    "racket": "#lang racket\n(displayln (+ (read) (read)))",
    "d": (
        "import std.stdio;\n"
        "unittest { assert(1 + 1 == 2); }\n"
        'void main() { int a, b; readf(" %d %d", &a, &b); writeln(a + b); }'
    ),
    "verilog": (
        "module tb;\n"
        "integer a, b, n;\n"
        'initial begin n = $fscanf(32\'h8000_0000, "%d %d", a, b); $display("%0d", a + b); end\n'
        "endmodule"
    ),
}
#: Text that no compiler or interpreter takes.
BROKEN = dict.fromkeys(SUMS, "this is ( no program") | {
    "typescript": "let x: = ;",
    "php": "<?php echo (;",
    "racket": "#lang racket\n(",
}
#: R runs what comes before the place where a text stops being a program.
del BROKEN["r"]
CRASHES = {
    "c": "#include <stdlib.h>\nint main() { abort(); }",
    "cpp17": '#include <stdexcept>\nint main() { throw std::runtime_error("no"); }',
    "java": "class Main { public static void main(String[] a) { throw new RuntimeException(); } }",
    "javascript": "JSON.parse('{')",
    "typescript": "JSON.parse('{')",
    "go": "package main\nfunc main() { panic(1) }",
    "rust": "fn main() { panic!() }",
    "bash": "exit 3",
    "scala": "object Main extends App { assert(1 == 2) }",
    "kotlin_script": "throw Exception()",
    "csharp": "class C { static void Main() { System.Diagnostics.Debug.Assert(1 == 2); } }",
    "php": "throw new Exception('no');",
    "lua": "error('no')",
    "perl": "die 'no'",
    "ruby": "raise 'no'",
    "r": "stop('no')",
    "racket": "#lang racket\n(error 'no)",
    "d": "unittest { assert(1 == 2); }\nvoid main() {}",
    "verilog": "module tb; initial $fatal; endmodule",
}
#: Tests of one function, with what it should return in place of EXPECTED.
UNIT_TESTS = {
    "pytest": "def twice(x): return 2 * x\ndef test_twice(): assert twice(2) == EXPECTED",
    "jest": (
        "import { expect, test } from '@jest/globals'\n"
        "const twice = (x: number): number => 2 * x\n"
        "test('twice', () => { expect(twice(2)).toBe(EXPECTED) })"
    ),
    "junit": (
        "import org.junit.jupiter.api.Test;\n"
        "import static org.junit.jupiter.api.Assertions.assertEquals;\n"
        "public class Twice { static int of(int x) { return 2 * x; } }\n"
        "class TwiceTest { @Test void twice() { assertEquals(EXPECTED, Twice.of(2)); } }"
    ),
    "go_test": (
        'package main\nimport "testing"\nfunc twice(x int) int { return 2 * x }\n'
        'func TestTwice(t *testing.T) { if twice(2) != EXPECTED { t.Error("Not equal") } }'
    ),
}
TOO_LARGE = {
    "cpp17": (
        "#include <bits/stdc++.h>\n"
        "int main() { std::vector<char*> kept;"
        " while (true) { kept.push_back(new char[1 << 20]); memset(kept.back(), 1, 1 << 20); } }"
    ),
    "java": (
        "import java.util.*; class Main { public static void main(String[] a) {"
        " List<long[]> kept = new ArrayList<>(); while (true) kept.add(new long[1 << 17]); } }"
    ),
    "javascript": "const kept = []\nwhile (true) kept.push(new Array(1e5).fill(1.5))",
    "go": (
        "package main\nfunc main() { var kept [][]byte; for {"
        " b := make([]byte, 1<<20); for i := range b { b[i] = 1 }; kept = append(kept, b) } }"
    ),
}


async def run(sandbox: LocalSandbox, language: str, code: str, **rest: object) -> ExecutionResult:
    if language not in sandbox.languages():
        pytest.skip(f"this host has no {language}")
    if sandbox.isolation == "fallback" and language in NEED_NAMESPACES:
        pytest.skip(f"{language} does not start in fallback")
    values = {"code": code, "language": language, "limits": GENEROUS} | rest
    return await sandbox.execute(ExecutionRequest.model_validate(values))


@pytest.mark.parametrize("language", SUMS)
@pytest.mark.slow
async def test_a_program_reads_and_prints(sandbox: LocalSandbox, language: str) -> None:
    result = await run(sandbox, language, SUMS[language], stdin="3 4\n")
    assert (result.status, result.stdout) == (Status.ACCEPTED, "7\n"), result
    assert (result.compilation is not None) == bool(LANGUAGES[language].compile)


@pytest.mark.parametrize("language", BROKEN)
@pytest.mark.slow
async def test_text_that_is_no_program_is_told_from_one_that_fails(
    sandbox: LocalSandbox, language: str
) -> None:
    result = await run(sandbox, language, BROKEN[language])
    compiled = bool(LANGUAGES[language].compile)
    assert result.status is (Status.COMPILE_ERROR if compiled else Status.SYNTAX_ERROR), result
    assert result.message
    if result.compilation is not None:
        assert not result.compilation.succeeded


@pytest.mark.parametrize("language", CRASHES)
async def test_a_crash_is_the_programs_own(sandbox: LocalSandbox, language: str) -> None:
    result = await run(sandbox, language, CRASHES[language])
    assert result.status is Status.RUNTIME_ERROR, result


@pytest.mark.parametrize("language", UNIT_TESTS)
async def test_a_runner_of_tests_tells_whether_they_pass(
    sandbox: LocalSandbox, language: str
) -> None:
    passed = await run(sandbox, language, UNIT_TESTS[language].replace("EXPECTED", "4"))
    assert passed.status is Status.ACCEPTED, passed
    failed = await run(sandbox, language, UNIT_TESTS[language].replace("EXPECTED", "5"))
    assert failed.status is Status.RUNTIME_ERROR, failed


@pytest.mark.slow
async def test_java_assertions_are_on(sandbox: LocalSandbox) -> None:
    code = "class Helper { int one() { return 1; } } public class Main {\n"
    code += "    public static void main(String[] a) { assert new Helper().one() == %d : 7; } }"
    assert (await run(sandbox, "java", code % 1)).status is Status.ACCEPTED
    wrong = await run(sandbox, "java", code % 2)
    assert wrong.status is Status.RUNTIME_ERROR
    assert "AssertionError: 7" in wrong.stderr


@pytest.mark.parametrize("language", TOO_LARGE)
@pytest.mark.slow
async def test_memory_is_limited_in_every_runtime(sandbox: LocalSandbox, language: str) -> None:
    limits = Limits(cpu_time_s=10.0, wall_time_s=60.0, memory_bytes=128 * 2**20)
    result = await run(sandbox, language, TOO_LARGE[language], limits=limits)
    assert result.status is Status.MEMORY_LIMIT, result


async def test_twenty_threads_with_large_stacks_are_no_memory(sandbox: LocalSandbox) -> None:
    if sandbox.isolation == "fallback":
        pytest.skip("without a cgroup the address space is what counts")
    code = (
        "#include <bits/stdc++.h>\n"
        "int main() { std::vector<std::thread> all; std::atomic<int> n = 0;\n"
        "for (int i = 0; i < 20; i++) all.emplace_back([&] { n++; });\n"
        "for (auto& one : all) one.join(); std::cout << n; }"
    )
    result = await run(sandbox, "cpp17", code)
    assert (result.status, result.stdout) == (Status.ACCEPTED, "20"), result


# Compiling


async def test_a_text_is_compiled_once(sandbox: LocalSandbox) -> None:
    code = SUMS["c"] + f"\n// {time.time_ns()}"
    both = await asyncio.gather(*(run(sandbox, "c", code, stdin=f"{n} 1") for n in range(2)))
    assert [result.stdout for result in both] == ["1\n", "2\n"]
    again = await run(sandbox, "c", code, stdin="5 5")
    assert again.stdout == "10\n"
    assert again.compilation is not None
    assert again.compilation.cached
    other = await run(sandbox, "c", code + "\n", stdin="5 5")
    assert other.compilation is not None
    assert not other.compilation.cached


async def test_one_who_leaves_does_not_end_the_compilation_of_others(
    sandbox: LocalSandbox,
) -> None:
    code = SUMS["cpp17"] + f"\n// {time.time_ns()}"
    first = asyncio.create_task(run(sandbox, "cpp17", code, stdin="1 1"))
    second = asyncio.create_task(run(sandbox, "cpp17", code, stdin="2 2"))
    await asyncio.sleep(0.05)
    first.cancel()
    assert (await second).stdout == "4\n"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_bounded_cache_forgets_what_was_used_longest_ago(
    make_sandbox: MakeSandbox,
) -> None:
    sandbox = await make_sandbox(sandbox_compile_cache_bytes=40_000)  # a small program is 16 KB

    async def is_cached(text: str) -> bool:
        result = await run(sandbox, "c", f"int main() {{ return {text}; }}")
        assert result.compilation is not None
        return result.compilation.cached

    assert [await is_cached(text) for text in ("0", "1", "0", "2", "0", "1")] == [
        False, False, True, False, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("c", '#include "/dev/zero"\nint main() {}'),
        ("c", '#include "/etc/shadow"\nint main() {}'),
        ("c", "int bomb[1 << 30] = {1};\nint main() {}"),
        ("cpp17", "template<int N> struct A { A<N + 1> a; };\nA<0> a;\nint main() {}"),
        ("cpp17", "#define A(x) x x x x x x x x\n"
                  "int y = A(A(A(A(A(A(A(A(A(1)))))))));\nint main() {}"),
        ("cpp17", "constexpr int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\n"
                  "static_assert(f(45) > 0);\nint main() {}"),
        ("rust", 'const _: &[u8] = include_bytes!("/dev/zero");\nfn main() {}'),
        ("rust", "macro_rules! m { ($($x:tt)*) => { m!($($x)* $($x)*) } }\nm!(a);\nfn main() {}"),
        ("go", "package main\nvar x [1 << 40]byte\nfunc main() { x[0] = 1 }"),
    ],
)  # fmt: skip
@pytest.mark.slow
async def test_a_compile_bomb_is_a_compile_error_and_soon_over(
    sandbox: LocalSandbox, language: str, code: str
) -> None:
    limits = Limits(
        cpu_time_s=2.0, wall_time_s=8.0, memory_bytes=512 * 2**20, file_bytes=16 * 2**20
    )
    started = time.monotonic()
    result = await run(sandbox, language, code, compile_limits=limits)
    assert result.status is Status.COMPILE_ERROR, result
    assert time.monotonic() - started < 12.0
    assert "root:" not in result.message
    assert (await run(sandbox, "python", "print(1)")).stdout == "1\n"


async def test_a_compiler_sees_the_files_beside_the_program(sandbox: LocalSandbox) -> None:
    code = '#include "answer.h"\n#include <stdio.h>\nint main() { printf("%d", ANSWER); }'
    result = await run(sandbox, "c", code, files={"answer.h": b"#define ANSWER 42\n"})
    assert result.stdout == "42"


async def test_java_is_started_where_main_is() -> None:
    assert java_names("class A {} class B { static void main(String[] x) {} }") == ("B.java", "B")
    nested = "public class A { static class B { } void f() { if (x) { } } static void main("
    assert java_names(nested) == ("A.java", "A")
    assert java_names("// class X { void main(\nclass Y { char c = '{'; void main(") == (
        "Y.java", "Y",
    )  # fmt: skip
    assert java_names("package a.b;\npublic final class C { void main(") == ("C.java", "a.b.C")
    assert java_names('class S { String s = """\n\\""" class T {\n"""; void main(') == (
        "S.java", "S",
    )  # fmt: skip


@pytest.mark.parametrize("start", ["", "/*", '"', "'", '"""', "package "])
@pytest.mark.parametrize(
    "again",
    ["/*", "*/", '"', "'", "\\", '\\"', "'\\'", '"""\\', "\n", " ", "{", "class A ", "package a\n"],
)
async def test_no_text_hides_its_names_for_long(start: str, again: str) -> None:
    text = start + again * (1_000_000 // len(again))
    started = time.process_time()
    java_names(text)
    scala_names(text)
    assert time.process_time() - started < 2.0


@pytest.mark.parametrize("again", ["SyntaxError: ", "SyntaxError: \n", "lua: main.lua:1: ", "\n"])
async def test_no_message_is_searched_for_long(again: str) -> None:
    said = (again * (1_000_000 // len(again))).encode()
    patterns = {
        pattern
        for language in LANGUAGES.values()
        for pattern in (language.out_of_memory, language.does_not_parse)
        if pattern is not None
    }
    started = time.process_time()
    for pattern in patterns:
        pattern.search(said)
    assert time.process_time() - started < 2.0


# Packages


async def test_a_program_that_imports_numpy_gets_it(sandbox: LocalSandbox) -> None:
    result = await run(sandbox, "python", "import numpy as np\nprint(np.arange(4).sum())")
    assert (result.status, result.stdout) == (Status.ACCEPTED, "6\n"), result
    for profile, is_there in (("std", "False"), ("scientific", "True")):
        code = "import sys; print('numpy' in sys.modules)"
        result = await run(sandbox, "python", code, profile=profile)
        assert result.stdout == f"{is_there}\n", profile


# Files


async def test_files_go_in_and_come_back(sandbox: LocalSandbox) -> None:
    code = (
        "import os\n"
        "os.mkdir('out')\n"
        "open('out/copy', 'wb').write(open('data/in.bin', 'rb').read()[::-1])\n"
        "os.symlink('/etc/hostname', 'link')\n"
        "os.symlink('/etc', 'folder')\n"
        "os.mkfifo('fifo')\n"
    )
    result = await run(
        sandbox,
        "python",
        code,
        files={"data/in.bin": b"\0\1\xff"},
        fetch_files=("out/copy", "link", "folder/passwd", "fifo", "out", "none", "[a]*"),
    )
    assert result.status is Status.ACCEPTED, result
    assert result.files == {"out/copy": b"\xff\1\0"}
    reasons = result.refused_files
    assert set(reasons) == {"link", "folder/passwd", "fifo", "out", "none", "[a]*"}
    assert "link" in reasons["link"]
    assert "link" in reasons["folder/passwd"]
    assert "regular" in reasons["fifo"]
    assert "no such file" in reasons["none"]


async def test_more_than_can_be_carried_is_refused_by_file(sandbox: LocalSandbox) -> None:
    code = "for name in 'abcdef': open(name, 'wb').truncate(15 * 2**20)"
    result = await run(sandbox, "python", code, fetch_files=tuple("abcdef"))
    assert set(result.files) == set("abcd")
    assert "over the limit" in result.refused_files["e"]


# Checkers

#: Any two numbers of that sum.
PARTS = Checker(
    code=(
        "import sys\n"
        "wanted = int(open(sys.argv[1]).read())\n"
        "a, b = map(int, open(sys.argv[2]).read().split())\n"
        "sys.exit(0 if a + b == wanted else 1)\n"
    )
)


async def check(
    sandbox: LocalSandbox, code: str, checker: Checker, expected: str = "secret"
) -> list[Status | None]:
    cases = tuple(StdinCase(stdin=str(n), expected_stdout=expected) for n in (5, 7))
    report = await sandbox.test(TestRequest(code=code, cases=cases, checker=checker))
    return [case.status for case in report.cases]


async def test_a_checker_decides(sandbox: LocalSandbox) -> None:
    right = "n = int(input())\nprint(1, n - 1)"
    assert await check(sandbox, right, PARTS) == [Status.ACCEPTED] * 2
    assert await check(sandbox, "print(2, 3)", PARTS) == [Status.ACCEPTED, Status.WRONG_ANSWER]
    # It raises on what it cannot read: wrong, unless it raises on the expected output too.
    judged = await check(sandbox, "print('x')", PARTS, expected="2 3")
    assert judged == [Status.WRONG_ANSWER, Status.UNGRADABLE]
    assert await check(sandbox, "1 / 0", PARTS) == [Status.RUNTIME_ERROR] * 2


async def test_a_checker_in_another_language(sandbox: LocalSandbox) -> None:
    if "c" not in sandbox.languages():
        pytest.skip("this host has no c")
    code = (
        "#include <stdio.h>\n"
        'int main(int n, char** names) { int a = 0; fscanf(fopen(names[2], "r"), "%d", &a);\n'
        "return a == 9 ? 0 : 2; }"
    )
    checker = Checker(code=code, language="c")
    assert await check(sandbox, "print(9)", checker) == [Status.ACCEPTED] * 2
    assert await check(sandbox, "print(8)", checker) == [Status.WRONG_ANSWER] * 2


@pytest.mark.slow
async def test_a_checker_that_decides_nothing_is_no_verdict(sandbox: LocalSandbox) -> None:
    for code in ("import os\nos._exit(3)", "import os\nos.abort()", "while True: pass"):
        checker = Checker(code=code, limits=Limits(cpu_time_s=1.0))
        assert await check(sandbox, "print(1)", checker) == [Status.UNGRADABLE] * 2
    with pytest.raises(InvalidInput, match="does not parse"):
        await check(sandbox, "print(1)", Checker(code="if"))
    with pytest.raises(InvalidInput, match=r"checker\.code"):
        await check(sandbox, "print(1)", Checker(code="int main(", language="c"))


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("tokens_any_order", "2 1\\n3", "1 2 2 3"),
        ("tokens_any_order_in_lines", "2  1\\n3\\n", "1 3\\n2"),
        ("lines_any_order", "3\\n1  2", "2 1\\n3"),
        ("tokens_any_case", "1 2 3", "1 2 4"),
    ],
)
async def test_a_checker_goes_by_name(
    sandbox: LocalSandbox, name: str, right: str, wrong: str
) -> None:
    cases = (StdinCase(stdin="", expected_stdout="1 2\n3"),)
    for text, status in ((right, Status.ACCEPTED), (wrong, Status.WRONG_ANSWER)):
        request = TestRequest(code=f"print('{text}')", cases=cases, checker=Checker(named=name))
        assert (await sandbox.test(request)).status is status
    unknown = TestRequest(code="", cases=cases, checker=Checker(named="no such"))
    with pytest.raises(InvalidInput, match="no checker named"):
        await sandbox.test(unknown)


async def test_a_program_never_sees_its_checker_or_the_answer(sandbox: LocalSandbox) -> None:
    code = (
        "import os, sys\n"
        "print(sys.argv, [name for name in os.listdir('.')], 'answer' in os.listdir('.'))"
    )
    wanted = "['main.py'] ['main.py'] False\n"
    checker = Checker(code=f"import sys\nsys.exit(open('output').read() != {wanted!r})")
    assert await check(sandbox, code, checker) == [Status.ACCEPTED] * 2
