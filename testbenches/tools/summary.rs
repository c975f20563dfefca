//! `.ci/summary`, which `make test` ends with: every failed test of every program has to be named.

use ndp_testkit::programs::Program;

const CARGO: &str = "     Running unittests src/lib.rs (target/release/deps/ndp_files-0123456789abcdef)
test child::tests::passes ... ok
test child::tests::fails ... FAILED
test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out
error: test failed, to rerun pass `-p ndp-files --lib`
     Running tests/main.rs (target/release/deps/tests-0123456789abcdef)
test crashes_after_this ... ok
error: test failed, to rerun pass `-p ndp-hdl --test tests`
   Doc-tests ndp_files
test src/lib.rs - output (line 3) ... FAILED
test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out
error: 2 targets failed:
    `-p ndp-files --doc`
    `-p ndp-hdl --test tests`
";

#[test]
fn all_failures_of_all_programs_are_named() {
    let summary = Program::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/summary"));
    let python = "FAIL: test_sums (test_reference.Sums)\nstep failed: golden/make_goldens.py --check\n";
    summary.file("cargo.log", CARGO);
    summary.file("python.log", python);
    summary.file("good.log", "test result: ok. 3 passed; 0 failed\n");
    summary.file("nothing.log", "test result: ok. 0 passed; 0 failed\n");
    let said = |line: &str, code: i32| {
        let output = summary.run(line);
        assert_eq!(output.status.code(), Some(code), "{line}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = said("cargo.log good.log python.log", 1);
    let names = [
        "child::tests::fails (ndp_files, src/lib.rs)",
        "src/lib.rs - output (line 3) (documentation of ndp_files)",
        "cargo test -p ndp-files --doc",
        "cargo test -p ndp-hdl --test tests",
        "test_sums (test_reference.Sums)",
        "golden/make_goldens.py --check",
    ];
    assert_eq!(text, format!("4 tests passed\nFAILED:\n    {}\n", names.join("\n    ")));
    assert_eq!(said("good.log", 0), "3 tests passed\n");
    assert!(said("good.log nothing.log", 1).contains("no test has passed in nothing.log"));
}
