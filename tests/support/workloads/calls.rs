//! Calls: from the node, as from outside of the mesh, and from pods.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::Namespace;
use crate::cluster::Answer;
use crate::cluster::processes::signal;

/// What curl writes after the body of an answer.
const WRITE_OUT: &str = "\n--- %{http_code} %{header_json}";

/// An answer of HTTP.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Names in lower case; each has its values in a list.
    headers: Value,
    pub(crate) body: String,
}

impl Reply {
    /// The answer that curl printed, or why there is none.
    fn of(answer: &Answer) -> Result<Self, String> {
        if !answer.success {
            return Err(answer.errors.clone());
        }
        let (body, rest) = answer.output.rsplit_once("\n--- ").expect("curl writes it");
        let (status, headers) = rest.split_once(' ').expect("curl writes it");
        Ok(Self {
            status: status.parse().expect("a status"),
            headers: serde_json::from_str(headers).expect("curl writes JSON"),
            body: body.to_owned(),
        })
    }

    /// The first value of a header; its name is in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers[name][0].as_str()
    }

    /// The pod that served it.
    pub(crate) fn served_by(&self) -> &str {
        self.header("x-served-by").unwrap_or_default()
    }

    /// The body, as the application writes it.
    ///
    /// # Panics
    /// When it is not JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

/// What `echo load` counted.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Load {
    pub(crate) requests: u64,
    pub(crate) failed: u64,
    /// The first of them in words.
    #[serde(default, deserialize_with = "null_is_none")]
    pub(crate) failures: Vec<Failure>,
    /// How many requests each pod has answered.
    pub(crate) served_by: BTreeMap<String, u64>,
    pub(crate) per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) slowest_us: f64,
}

/// A request that failed.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Failure {
    /// Since the beginning.
    pub(crate) after: String,
    pub(crate) reason: String,
}

fn null_is_none<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Failure>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Namespace<'_> {
    /// Calls a URL from the node, where Services have their addresses but no names: a caller outside of the mesh.
    /// Arguments of curl may follow.
    pub(crate) fn call(&self, url: &str, arguments: &[&str]) -> Result<Reply, String> {
        let mut curl = self.node.in_network("curl");
        curl.env_clear()
            .args(["-sS", "-m30", "--noproxy", "*", "-w", WRITE_OUT])
            .args(arguments)
            .arg(url);
        Reply::of(&Answer::of(curl, ""))
    }

    /// Whether the node gets a connection, on which it says nothing.
    pub(super) fn connects(&self, address: &str, port: &Value) -> bool {
        let mut connect = self.node.in_network("timeout");
        let script = format!("exec 3<>/dev/tcp/{address}/{port}");
        connect.args(["1", "bash", "-c", &script]);
        Answer::of(connect, "").success
    }

    /// Calls a Service of this namespace in the same way: its address, that port, and a path.
    pub(crate) fn call_service(
        &self,
        service: &str,
        port: u16,
        path: &str,
        arguments: &[&str],
    ) -> Result<Reply, String> {
        let address = super::text(&self.get(&["service", service])["spec"]["clusterIP"]);
        self.call(&format!("http://{address}:{port}{path}"), arguments)
    }

    /// Calls a URL from the container `app` of a pod that has curl, such as a client's.
    pub(crate) fn call_from(&self, pod: &str, url: &str, arguments: &[&str]) -> Result<Reply, String> {
        let curl = ["exec", pod, "-c", "app", "--", "curl", "-sS", "-m30", "-w", WRITE_OUT];
        let arguments: Vec<&str> = curl.iter().chain(arguments).copied().chain([url]).collect();
        Reply::of(&self.kubectl(&arguments))
    }

    /// Lets the only pod of an application call a URL, as the program that it is: with its `/call`. The answer has
    /// `status`, `served_by` and `body`, or is a failure in words. Arguments of curl are for the call to the application.
    pub(crate) fn call_through(&self, app: &str, url: &str, arguments: &[&str]) -> Result<Value, String> {
        let onward = format!("http://{}:8080/call?url={url}", self.address(&self.pod(app)));
        let reply = self.call(&onward, arguments)?;
        if reply.status == 200 {
            Ok(reply.json())
        } else {
            Err(reply.body)
        }
    }

    /// Runs `echo load` with these arguments in the container `load` of a pod, such as a client's, until it is done.
    pub(crate) fn load(&self, pod: &str, arguments: &[&str]) -> Load {
        let command = ["exec", pod, "-c", "load", "--", "/echo", "load"];
        let command: Vec<&str> = command.iter().chain(arguments).copied().collect();
        let printed = self.kubectl(&command).expect_success();
        serde_json::from_str(&printed).unwrap_or_else(|e| panic!("{e}: {printed}"))
    }

    /// Ends the loads that run in a pod, each of which reports what it has counted.
    pub(crate) fn end_loads(&self, pod: &str) {
        let is_load = |id: &u32| {
            let line = std::fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
            line.split('\0').nth(1) == Some("load")
        };
        let processes = self.node.container_processes(&self.name, pod, "load");
        let loads = processes.into_iter().filter(is_load);
        loads.for_each(|id| signal("TERM", id));
    }
}
