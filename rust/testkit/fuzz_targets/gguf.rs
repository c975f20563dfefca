#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ndp_testkit::fuzz::targets::gguf(data));
