"""Runners of unit tests as languages: the program's text is a file of tests.

JUnit is in `jvm`, with the other languages of the Java machine.
"""

import json
import re

from assay_sandbox.languages.language import Language, shell

#: Folders of npm and Debian for libraries available to every program.
NODE_MODULES = "/usr/local/lib/node_modules:/usr/lib/node_modules:/usr/share/nodejs"
#: The report of a jest run; a request may fetch it.
JEST_REPORT = "jest-report.json"

#: Without autoloading, plugins installed on the host do not change the verdict.
_PYTEST = """
import os, sys
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
sys.path.insert(0, os.getcwd())
import pytest
sys.exit(int(pytest.main(["-p", "no:cacheprovider", "main_test.py"])))
"""
_JEST_FOLDER = "/usr/share/nodejs/jest"
_JEST_MAIN = f"{_JEST_FOLDER}/bin/jest.js"
#: Debian's jest asks node for the folder of Debian's libraries. Only Debian's node knows it.
_JEST_NODE = """
const known = process.config.variables;
if (known.node_relative_path === undefined) {
  const variables = {...known, node_prefix: '/usr', node_relative_path: 'share/nodejs'};
  Object.defineProperty(process, 'config', {value: {...process.config, variables}});
}
"""
_BABEL = {
    "presets": [
        ["@babel/preset-env", {"targets": {"node": "current"}}],
        "@babel/preset-typescript",
    ]
}
_JEST = {
    "rootDir": ".",
    "testEnvironment": "node",
    "transform": {r"\.[cm]?[jt]sx?$": ["babel-jest", _BABEL]},
    "cacheDirectory": ".jest",
    "haste": {"enableSymlinks": False},
}
_GO = "export GO111MODULE=off CGO_ENABLED=0 GOPATH=/usr/share/gocode"
#: Packages of these libraries are in the cache for the compiler of tests.
_GO_LIBRARIES = "github.com/stretchr/testify"
_GO_PREPARE = f"""
{_GO} GOCACHE=$PWD/go HOME=$PWD
go build std
echo 'package main; import "testing"; func TestNothing(t *testing.T) {{}}' > warm_test.go
go test -c -o warm warm_test.go
for library in {_GO_LIBRARIES}; do
  [ ! -d $GOPATH/src/$library ] || go build $library/assert $library/require
done
rm -f warm warm_test.go
"""
_GO_RUN = """
if ./main -test.paniconexit0; then
  printf 'ok  \\tcommand-line-arguments\\n'
else
  printf 'FAIL\\tcommand-line-arguments\\nFAIL\\n'
  exit 1
fi
"""

TEST_RUNNERS = (
    Language(
        "pytest",
        "main_test.py",
        (),
        ("{python}", "-c", "import pytest; print('pytest', pytest.__version__)"),
        driver=_PYTEST,
        profile="scientific",
    ),
    Language(
        "jest",
        "main.test.ts",
        (
            "env",
            f"NODE_PATH={NODE_MODULES}",
            "FORCE_COLOR=0",
            "node",
            "-r",
            "{cache}/known.js",
            _JEST_MAIN,
            "--runInBand",
            "--no-watchman",
            "--json",
            f"--outputFile={JEST_REPORT}",
            f"--config={json.dumps(_JEST)}",
        ),
        ("node", "-p", f"'jest ' + require('{_JEST_FOLDER}/package.json').version"),
        prepare=shell(f"cat > known.js <<'END'\n{_JEST_NODE}\nEND"),
        runtime_bytes=512 * 2**20,
        out_of_memory=re.compile(rb"heap out of memory"),
        tools=(_JEST_MAIN,),
    ),
    Language(
        "go_test",
        "main_test.go",
        ("sh", "-c", _GO_RUN),
        ("go", "version"),
        # Use a copy of links to the cache's files: `go` writes new files into its cache.
        compile=shell(
            f"{_GO} HOME=$TMPDIR GOCACHE=$TMPDIR/.go; cp -rs {{cache}}/go $GOCACHE; "
            "go test -c -o main main_test.go"
        ),
        prepare=shell(_GO_PREPARE),
        runtime_bytes=64 * 2**20,
        out_of_memory=re.compile(rb"fatal error: (?:runtime: )?(?:out of memory|cannot alloc)"),
    ),
)
