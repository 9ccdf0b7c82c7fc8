//! What must hold, as `case.md` says.

use serde_json::Value;

use crate::call;
use crate::review::Call;

fn dry() -> Call {
    call(include_str!("review.json"))
}

#[test]
fn dry_run_gets_the_same_answer() {
    let reference = dry().requesting("/dryRun", false);
    reference.mutate().injected();
    for call in [dry(), dry().requesting("/dryRun", Value::Null)] {
        assert_eq!(call.mutate().body, reference.mutate().body);
        assert_eq!(call.validate().body, reference.validate().body);
    }
}

#[test]
fn dry_run_is_refused_for_the_same_reason() {
    let bad = dry().annotated("outrigger.mesh/position", "middle");
    let real = bad.requesting("/dryRun", false);
    real.mutate().denied("bad-setting", &["middle"]);
    assert_eq!(bad.mutate().body, real.mutate().body);
}

#[test]
fn same_request_gets_the_same_answer_again() {
    assert_eq!(dry().mutate().body, dry().mutate().body);
}
