//! Applications and callers: each server says who called it, how, and for what.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::net::{self, AddressFamily, SocketType};
use serde_json::{Value, json};

use crate::space::Space;

/// Longer than anything a test waits for, so that what hangs fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// How the paths begin of the calls that tests make for their own knowledge.
pub(crate) const MARK: &str = "/mark-";

/// How long a connection may take that nobody takes: packets that go nowhere are not refused.
const CONNECTING: Duration = Duration::from_secs(3);

/// A running server.
pub(crate) struct Server {
    calls: Arc<AtomicUsize>,
}

impl Server {
    /// Starts one at an address of a namespace, for TCP: HTTP/1.1, and for all else one line for each line.
    pub(crate) fn start(space: Space, name: &'static str, address: impl Into<SocketAddr>) -> Self {
        let address = address.into();
        let listener = space
            .enter(|| TcpListener::bind(address))
            .unwrap_or_else(|e| panic!("{address}: {e}"));
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        thread::spawn(move || {
            for socket in listener.incoming() {
                let counted = Arc::clone(&counted);
                thread::spawn(move || socket.and_then(|socket| converse(name, &socket, &counted)));
            }
        });
        Self { calls }
    }

    /// How many requests and lines it got, but for marks.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

fn converse(name: &str, socket: &TcpStream, calls: &AtomicUsize) -> io::Result<()> {
    let (caller, called) = (socket.peer_addr()?, socket.local_addr()?);
    let mut lines = BufReader::new(socket).lines();
    while let Some(said) = lines.next().transpose()? {
        let said = said.trim_end().to_owned();
        let is_http = said.ends_with(" HTTP/1.1");
        let headers = if is_http { headers(&mut lines)? } else { Headers::new() };
        calls.fetch_add(usize::from(!said.contains(MARK)), Ordering::SeqCst);
        let answer = json!({
            "server": name, "caller": plain(caller.ip()), "called": plain(called.ip()), "port": called.port(),
            "said": said, "host": headers.get("host"),
        });
        let body = format!("{answer}\n");
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        let mut socket = socket;
        socket.write_all(format!("{}{body}", if is_http { &head } else { "" }).as_bytes())?;
        if headers.get("connection").is_some_and(|value| value == "close") {
            break;
        }
    }
    Ok(())
}

type Headers = BTreeMap<String, String>;

fn headers(lines: &mut impl Iterator<Item = io::Result<String>>) -> io::Result<Headers> {
    let mut headers = Headers::new();
    while let Some(line) = lines.next().transpose()?.filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or(io::ErrorKind::InvalidData)?;
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    Ok(headers)
}

/// An address without the form in which sockets of both families have those of version 4.
fn plain(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// Starts a server for UDP, which answers each packet with its name and the caller's address.
pub(crate) fn start_udp(space: Space, name: &'static str, address: impl Into<SocketAddr>) {
    let address = address.into();
    let socket = space
        .enter(|| UdpSocket::bind(address))
        .unwrap_or_else(|e| panic!("{address}: {e}"));
    thread::spawn(move || {
        let mut packet = [0; 512];
        while let Ok((_, caller)) = socket.recv_from(&mut packet) {
            let answer = format!("{name} {}", plain(caller.ip()));
            socket.send_to(answer.as_bytes(), caller).expect("the caller waits");
        }
    });
}

/// Sends a packet; the answer.
pub(crate) fn ask_udp(space: Space, address: impl Into<SocketAddr>) -> String {
    let address: SocketAddr = address.into();
    let any: IpAddr = if address.is_ipv4() {
        [0; 4].into()
    } else {
        [0; 16].into()
    };
    let socket = space.enter(|| UdpSocket::bind((any, 0))).expect("a free port");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    socket.connect(address).expect("there is a route");
    socket.send(b"hello").expect("it can be sent");
    let mut packet = [0; 512];
    let size = socket
        .recv(&mut packet)
        .unwrap_or_else(|e| panic!("no answer of {address}: {e}"));
    String::from_utf8_lossy(&packet[..size]).into_owned()
}

/// A connection, or how it failed.
pub(crate) fn connect(space: Space, address: impl Into<SocketAddr>) -> io::Result<TcpStream> {
    let address = address.into();
    let socket = space.enter(|| TcpStream::connect_timeout(&address, CONNECTING))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// A connection from a port of choice.
pub(crate) fn connect_from(space: Space, port: u16, address: impl Into<SocketAddr>) -> io::Result<TcpStream> {
    let address: SocketAddr = address.into();
    let any: IpAddr = if address.is_ipv4() {
        [0; 4].into()
    } else {
        [0; 16].into()
    };
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let socket = space.enter(|| {
        let socket = net::socket(family, SocketType::STREAM, None)?;
        net::sockopt::set_socket_reuseaddr(&socket, true)?;
        net::bind(&socket, &SocketAddr::new(any, port))?;
        net::connect(&socket, &address)?;
        Ok::<_, io::Error>(socket)
    })?;
    Ok(TcpStream::from(socket))
}

/// An answer of HTTP.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// What a server of ours says; null where another answered.
    pub(crate) body: Value,
}

/// Asks for a path in a connection of its own.
pub(crate) fn get(space: Space, address: impl Into<SocketAddr>, path: &str) -> Answer {
    let address = address.into();
    try_get(space, address, path).unwrap_or_else(|e| panic!("no answer of {address} to {path}: {e}"))
}

/// The same where there may be no answer.
pub(crate) fn try_get(space: Space, address: impl Into<SocketAddr>, path: &str) -> io::Result<Answer> {
    ask(connect(space, address)?, path)
}

/// Asks for a path in this connection, which the server ends, so that the port is free for the caller's next.
pub(crate) fn ask(mut socket: TcpStream, path: &str) -> io::Result<Answer> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: web.shop\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes())?;
    let mut reader = BufReader::new(socket);
    let mut line = String::new();
    let mut head = Vec::new();
    while reader.read_line(&mut line)? > 0 && line != "\r\n" {
        head.push(std::mem::take(&mut line));
    }
    let status = head.first().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let mut body = Vec::new();
    reader.read_to_end(&mut body)?;
    Ok(Answer {
        status: status.ok_or(io::ErrorKind::UnexpectedEof)?,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    })
}

/// Says a line in a connection and reads what a server of ours answers; null where the connection ends without.
pub(crate) fn say(socket: &TcpStream, line: &str) -> Value {
    let mut writer = socket;
    writer
        .write_all(format!("{line}\n").as_bytes())
        .expect("the connection is open");
    let mut answer = String::new();
    BufReader::new(socket)
        .read_line(&mut answer)
        .expect("an answer or the end");
    serde_json::from_str(&answer).unwrap_or_default()
}

/// Runs curl in a namespace, as applications that look names up.
pub(crate) fn curl(space: Space, arguments: &[&str]) -> Output {
    let mut command = space.command("curl");
    command
        .args(["--silent", "--show-error", "--max-time", "10"])
        .args(arguments);
    command.output().expect("curl can be run")
}

/// What a server of ours says to a call of curl.
pub(crate) fn curled(space: Space, arguments: &[&str]) -> Value {
    let output = curl(space, arguments);
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_str(&said).unwrap_or_else(|e| panic!("{arguments:?}: {e}: {said} {errors}"))
}
