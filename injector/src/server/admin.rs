//! Health checks and metrics, on a port of their own and without TLS: the kubelet and a scraper
//! call them.

use actix_web::http::StatusCode;
use actix_web::http::header::ContentType;
use actix_web::{HttpResponse, web};

use super::failure::status;
use super::state::State;
use crate::metrics::CONTENT_TYPE;

/// Adds `/livez`, `/readyz` and `/metrics`.
pub(super) fn routes(app: &mut web::ServiceConfig) {
    app.route("/livez", web::get().to(livez))
        .route("/readyz", web::get().to(readyz))
        .route("/metrics", web::get().to(metrics))
        .default_service(web::to(not_found));
}

async fn livez() -> HttpResponse {
    HttpResponse::Ok().content_type(ContentType::plaintext()).body("ok")
}

/// Lists each check, in the words of the API server's own `/readyz?verbose`.
async fn readyz(state: web::Data<State>) -> HttpResponse {
    let checks = [
        ("certificate", state.certificates.check()),
        ("namespaces", passed(state.parts.namespaces.ready(), "not listed yet")),
        ("services", passed(state.parts.services.ready(), "not listed yet")),
        ("shutdown", passed(!state.is_draining(), "in progress")),
    ];
    let lines = checks.iter().map(|(name, check)| match check {
        Ok(()) => format!("[+]{name} ok\n"),
        Err(reason) => format!("[-]{name} failed: {reason}\n"),
    });
    let ready = checks.iter().all(|(_, check)| check.is_ok());
    let (code, verdict) = match ready {
        true => (StatusCode::OK, "passed"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "failed"),
    };
    let page = format!("{}readyz check {verdict}\n", lines.collect::<String>());
    HttpResponse::build(code)
        .content_type(ContentType::plaintext())
        .body(page)
}

fn passed(holds: bool, reason: &str) -> Result<(), String> {
    holds.then_some(()).ok_or_else(|| reason.to_owned())
}

async fn metrics(state: web::Data<State>) -> HttpResponse {
    HttpResponse::Ok()
        .content_type(CONTENT_TYPE)
        .body(state.parts.metrics.encode())
}

async fn not_found() -> HttpResponse {
    status(
        StatusCode::NOT_FOUND,
        "NotFound",
        "the pages are /livez, /readyz and /metrics",
    )
}
