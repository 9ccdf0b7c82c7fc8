//! The two webhooks.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use actix_web::body::{BoxBody, MessageBody, SizedStream};
use actix_web::http::{ConnectionType, Method, StatusCode, header};
use actix_web::{HttpRequest, HttpResponse, web};
use futures::{FutureExt, StreamExt, stream};

use super::body;
use super::failure::{Failure, FailureKind, status};
use super::state::State;
use crate::error::error_chain;
use crate::review::{self, Answer, Endpoint, Review};

/// The outcome that is always worth a line in the log.
const INJECTED: &str = "injected";

/// Adds both webhooks, and an answer for everything else.
pub(super) fn routes(app: &mut web::ServiceConfig) {
    for &endpoint in Endpoint::ALL {
        let admit = move |request, payload, state| admit(endpoint, request, payload, state);
        let resource = web::resource(format!("/{endpoint}")).route(web::post().to(admit));
        app.service(resource.default_service(web::to(method_not_allowed)));
    }
    app.default_service(web::to(not_found));
}

async fn admit(
    endpoint: Endpoint,
    request: HttpRequest,
    mut payload: web::Payload,
    state: web::Data<State>,
) -> HttpResponse {
    let _in_flight = state.parts.metrics.start();
    let call = Call {
        endpoint,
        request: &request,
        state: &state,
        started: Instant::now(),
    };
    // Everything the future borrows is dropped with it, so nothing half-changed can be seen later.
    let result = AssertUnwindSafe(call.answer(&mut payload)).catch_unwind().await;
    let result = result.unwrap_or_else(|panic| Err(Failure::panicked(panic.as_ref())));
    let mut response = match result {
        Ok(answered) => call.answered(answered),
        Err(failure) => hold(call.failed(&failure), payload),
    };
    if state.is_draining() {
        close(&mut response);
    }
    response
}

/// Keeps the rest of an unread body until the response is written, which makes the connection
/// close. A chunked body that nobody holds would be read to its end, which may never come.
fn hold(response: HttpResponse, unread: web::Payload) -> HttpResponse {
    response.map_body(|_, body| match body.try_into_bytes() {
        Err(other) => other,
        Ok(bytes) => {
            let length = bytes.len() as u64;
            let held = stream::iter([bytes]).map(move |bytes| {
                let _until_the_end = &unread;
                Ok::<_, Infallible>(bytes)
            });
            BoxBody::new(SizedStream::new(length, held))
        }
    })
}

async fn method_not_allowed(payload: web::Payload) -> HttpResponse {
    let message = "webhooks are called with POST";
    let mut response = status(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message);
    response
        .headers_mut()
        .insert(header::ALLOW, header::HeaderValue::from_static(Method::POST.as_str()));
    hold(response, payload)
}

async fn not_found(payload: web::Payload) -> HttpResponse {
    let response = status(
        StatusCode::NOT_FOUND,
        "NotFound",
        "the webhooks are /mutate and /validate",
    );
    hold(response, payload)
}

/// Closes the connection after this response, and says so.
pub(super) fn close(response: &mut HttpResponse) {
    response.head_mut().set_connection_type(ConnectionType::Close);
}

/// One call of a webhook.
struct Call<'a> {
    endpoint: Endpoint,
    request: &'a HttpRequest,
    state: &'a State,
    started: Instant,
}

/// An answer, with what the log says about the request.
struct Answered {
    answer: Answer,
    uid: String,
    namespace: String,
    dry_run: bool,
}

impl Call<'_> {
    async fn answer(&self, payload: &mut web::Payload) -> Result<Answered, Failure> {
        if self.state.turns_away() {
            return Err(Failure::Draining);
        }
        self.check_media_type()?;
        let body = body::read(self.request.headers(), payload, self.state).await?;
        let review = review::decode(&body.bytes)?;
        self.judge(&review).await
    }

    fn check_media_type(&self) -> Result<(), Failure> {
        let value = self.request.headers().get(header::CONTENT_TYPE);
        let text = String::from_utf8_lossy(value.map_or(&[], header::HeaderValue::as_bytes));
        let essence = text.split(';').next().unwrap_or_default().trim();
        if essence.eq_ignore_ascii_case("application/json") {
            return Ok(());
        }
        Err(Failure::MediaType(text.into_owned()))
    }

    async fn judge(&self, review: &Review<'_>) -> Result<Answered, Failure> {
        let parts = &self.state.parts;
        let namespace = match review.needs_namespace(self.endpoint) {
            true => Some(parts.namespaces.lookup(review.namespace()).await?),
            false => None,
        };
        let services = parts.services.now();
        let answer = parts
            .reviewer
            .answer(self.endpoint, review, namespace.as_ref(), services.view())?;
        Ok(Answered {
            answer,
            uid: review.uid().to_owned(),
            namespace: review.namespace().to_owned(),
            dry_run: review.dry_run(),
        })
    }

    fn answered(&self, answered: Answered) -> HttpResponse {
        let took = self.count(answered.answer.outcome.as_str());
        self.log_answer(&answered, took);
        HttpResponse::Ok()
            .content_type("application/json")
            .body(answered.answer.body)
    }

    fn failed(&self, failure: &Failure) -> HttpResponse {
        let kind = failure.kind();
        let took = self.count(kind.as_str());
        self.log_failure(failure, kind, took);
        failure.respond()
    }

    fn count(&self, outcome: &'static str) -> Duration {
        let took = self.started.elapsed();
        self.state.parts.metrics.answered(self.endpoint, outcome, took);
        took
    }

    /// What changed a pod or told its user something is worth a line; pods passed over are not.
    fn log_answer(&self, answered: &Answered, took: Duration) {
        let Answered {
            answer,
            uid,
            namespace,
            dry_run,
        } = answered;
        let (endpoint, outcome) = (self.endpoint.as_str(), answer.outcome.as_str());
        let (pod, detail, duration_us) = (&answer.pod, answer.message.as_deref(), micros(took));
        if outcome == INJECTED || detail.is_some() {
            tracing::info!(
                uid,
                namespace,
                pod,
                dry_run,
                endpoint,
                outcome,
                detail,
                duration_us,
                "admission"
            );
        } else {
            tracing::debug!(
                uid,
                namespace,
                pod,
                dry_run,
                endpoint,
                outcome,
                duration_us,
                "admission"
            );
        }
    }

    fn log_failure(&self, failure: &Failure, kind: FailureKind, took: Duration) {
        let (endpoint, outcome, duration_us) = (self.endpoint.as_str(), kind.as_str(), micros(took));
        let peer = self.request.peer_addr().map(|address| address.to_string());
        let detail = match failure {
            Failure::Panicked(text) => text.clone(),
            told => error_chain(told),
        };
        if kind == FailureKind::Error {
            tracing::error!(endpoint, outcome, detail, peer, duration_us, "admission failed");
        } else {
            tracing::info!(endpoint, outcome, detail, peer, duration_us, "admission refused");
        }
    }
}

fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}
