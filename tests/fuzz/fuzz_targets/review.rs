#![no_main]

mod mutation;

libfuzzer_sys::fuzz_target!(|input: &[u8]| outrigger_fuzz::review(input));
libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| {
    mutation::mutate(data, size, most, seed)
});
