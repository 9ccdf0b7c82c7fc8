//! Applications and peers: threads that take requests, remember them, and answer as they are told.

use std::io::{BufReader, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::wire::{Message, PATIENCE, Stream, rest, send};

/// What an application speaks.
#[derive(Clone)]
pub(crate) enum Speaks {
    /// HTTP or anything else in plain; to TLS it says 400.
    Plain,
    /// The same, but a client that begins with TLS never gets an answer.
    SilentToTls,
    /// TLS alone.
    Tls(Arc<ServerConfig>),
}

/// What becomes of a request.
pub(crate) enum Reply {
    /// An answer with a status and a body.
    Status(u16, String),
    /// Bytes as they are, and the end of the connection.
    Raw(String),
    /// An answer after which the connection ends without a word of it.
    Last(String),
    /// The end of the connection.
    Close,
    /// Nothing for longer than anybody waits.
    Silence,
    /// 101, and every byte sent back until the other side ends.
    Tunnel,
}

/// A request, and on which connection of the application it came.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) connection: usize,
    pub(crate) request: Message,
}

/// A running application.
pub(crate) struct App {
    /// Where it listens on 127.0.0.1.
    pub(crate) port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl App {
    /// One that answers `200` with its name.
    pub(crate) fn named(name: &'static str) -> Self {
        Self::new(Speaks::Plain, move |_| Reply::Status(200, name.to_owned()))
    }

    /// Starts one.
    pub(crate) fn new(speaks: Speaks, answer: impl Fn(&Message) -> Reply + Send + Sync + 'static) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let remembered = Arc::clone(&seen);
        let port = listen(speaks, move |stream, connection| {
            converse(stream, connection, &answer, &remembered);
        });
        Self { port, seen }
    }

    /// The requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The last request.
    pub(crate) fn last(&self) -> Message {
        self.seen().pop().expect("the application got a request").request
    }
}

/// A server of no HTTP: it answers each line with `name:` and the line.
pub(crate) fn raw(speaks: Speaks, name: &'static str) -> u16 {
    listen(speaks, move |mut stream, _| {
        let mut line = Vec::new();
        while matches!(std::io::BufRead::read_until(&mut stream, b'\n', &mut line), Ok(n) if n > 0) {
            let said = format!("{name}:{}", String::from_utf8_lossy(&line));
            if send(&mut stream, said.as_bytes()).is_err() {
                return;
            }
            line.clear();
        }
    })
}

/// A server that answers `name:` and how many bytes there were, once the caller has said all and ended its side.
pub(crate) fn counting(name: &'static str) -> u16 {
    listen(Speaks::Plain, move |mut stream, _| {
        let said = rest(&mut stream).len();
        // The caller's end is no answer of ours yet.
        thread::sleep(std::time::Duration::from_millis(100));
        let _ = send(&mut stream, format!("{name}:{said}\n").as_bytes());
    })
}

/// A port at which nobody listens.
pub(crate) fn dead_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has free ports");
    listener.local_addr().expect("it is bound").port()
}

fn listen(speaks: Speaks, talk: impl Fn(Stream, usize) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has free ports");
    let port = listener.local_addr().expect("it is bound").port();
    let talk = Arc::new(talk);
    thread::spawn(move || {
        for (connection, socket) in listener.incoming().enumerate() {
            let (Ok(socket), talk, speaks) = (socket, Arc::clone(&talk), speaks.clone()) else {
                return;
            };
            thread::spawn(move || {
                if let Some(stream) = accept(&speaks, socket) {
                    talk(stream, connection);
                }
            });
        }
    });
    port
}

/// The connection, unless it begins with what the application does not speak.
fn accept(speaks: &Speaks, socket: TcpStream) -> Option<Stream> {
    const TLS_HANDSHAKE: u8 = 0x16;
    let mut first = [0];
    let plain = !matches!(socket.peek(&mut first), Ok(1) if first[0] == TLS_HANDSHAKE);
    match speaks {
        Speaks::Tls(config) => {
            let connection = ServerConnection::new(Arc::clone(config)).expect("a usable configuration");
            Some(BufReader::new(Box::new(StreamOwned::new(connection, socket))))
        }
        _ if plain => Some(BufReader::new(Box::new(socket))),
        Speaks::Plain => {
            let mut stream: Stream = BufReader::new(Box::new(socket));
            let _ = send(&mut stream, b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
            None
        }
        Speaks::SilentToTls => {
            thread::sleep(PATIENCE);
            drop(socket);
            None
        }
    }
}

fn converse(mut stream: Stream, connection: usize, answer: &dyn Fn(&Message) -> Reply, seen: &Mutex<Vec<Seen>>) {
    while let Ok(Some(request)) = Message::read_request(&mut stream) {
        let reply = answer(&request);
        let remembered = Seen { connection, request };
        seen.lock().unwrap_or_else(PoisonError::into_inner).push(remembered);
        let sent = match reply {
            Reply::Status(status, body) => send(&mut stream, ok(status, &body).as_bytes()),
            Reply::Raw(text) => return drop(send(&mut stream, text.as_bytes())),
            Reply::Last(body) => return drop(send(&mut stream, ok(200, &body).as_bytes())),
            Reply::Close => return,
            Reply::Silence => return thread::sleep(PATIENCE),
            Reply::Tunnel => return tunnel(&mut stream),
        };
        if sent.is_err() {
            return;
        }
    }
    rest(&mut stream);
}

fn ok(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} Said\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn tunnel(stream: &mut Stream) {
    let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let mut sent = send(stream, head.as_bytes());
    let mut part = [0; 4096];
    while let (Ok(()), Ok(n @ 1..)) = (&sent, stream.read(&mut part)) {
        sent = send(stream, &part[..n]);
    }
}
