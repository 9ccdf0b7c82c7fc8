#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| outrigger_fuzz::settings(input));
