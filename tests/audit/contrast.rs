//! The page's colours, light and dark, are told apart as WCAG 2.2 asks of text (1.4.3, level AA: 4.5 to 1).

use std::collections::BTreeMap;

use super::sample;

/// Text and what it stands on.
const PAIRS: [(&str, &str); 15] = [
    ("text", "back"),
    ("text", "card"),
    ("soft", "back"),
    ("soft", "card"),
    ("link", "card"),
    ("injected", "injected-back"),
    ("missing", "missing-back"),
    ("invalid", "invalid-back"),
    ("leftover", "leftover-back"),
    ("skipped", "skipped-back"),
    ("injected", "card"),
    ("missing", "card"),
    ("invalid", "card"),
    ("leftover", "card"),
    ("skipped", "card"),
];

/// The colours of a theme: what follows `:root`.
fn colours(theme: &str) -> BTreeMap<&str, u32> {
    let block = theme.split_once('}').unwrap().0;
    let entries = block
        .split(';')
        .filter_map(|entry| entry.split_once("--")?.1.split_once(": #"));
    entries
        .map(|(name, hex)| (name, u32::from_str_radix(hex.trim(), 16).unwrap()))
        .collect()
}

fn luminance(colour: u32) -> f64 {
    let linear = |shift: u32| {
        let channel = f64::from(colour >> shift & 0xff) / 255.0;
        if channel <= 0.04045 {
            channel / 12.92
        } else {
            ((channel + 0.055) / 1.055).powf(2.4)
        }
    };
    0.2126 * linear(16) + 0.7152 * linear(8) + 0.0722 * linear(0)
}

fn contrast(one: u32, other: u32) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn text_stands_out_in_both_themes() {
    let page = sample().to_html();
    let themes: Vec<_> = page.split(":root {").skip(1).map(colours).collect();
    assert_eq!(themes.len(), 2, "one light, one dark");
    for theme in themes {
        for (text, back) in PAIRS {
            let found = contrast(theme[text], theme[back]);
            assert!(found >= 4.5, "{text} on {back}: {found:.2} to 1");
        }
    }
}

#[test]
fn contrast_is_that_of_the_standard() {
    assert!((contrast(0, 0xff_ffff) - 21.0).abs() < 1e-9);
    // The grey that is known for just passing on white.
    assert!((contrast(0x76_7676, 0xff_ffff) - 4.54).abs() < 0.01);
}
