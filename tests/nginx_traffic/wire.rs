//! HTTP/1.1 by hand over any stream: what a test sends and sees is every byte of it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

/// Longer than anything a test waits for, so that what hangs fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// A connection of any kind.
pub(crate) trait Wire: Read + Write + Send {}
impl<T: Read + Write + Send> Wire for T {}

/// A connection with what was read ahead.
pub(crate) type Stream = BufReader<Box<dyn Wire>>;

/// A request or an answer.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    /// The request line or the status line.
    pub(crate) first: String,
    /// Names as they came, and values, in their order.
    pub(crate) headers: Vec<(String, String)>,
    /// The body without its framing.
    pub(crate) body: Vec<u8>,
}

impl Message {
    /// The next request; `None`: the connection has ended.
    pub(crate) fn read_request(stream: &mut Stream) -> io::Result<Option<Self>> {
        let Some((first, headers)) = head(stream)? else {
            return Ok(None);
        };
        let body = sized_body(stream, &headers)?.unwrap_or_default();
        Ok(Some(Self { first, headers, body }))
    }

    /// The next answer.
    pub(crate) fn read_answer(stream: &mut Stream) -> io::Result<Self> {
        let (first, headers) = head(stream)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let bodiless = first.contains(" 101 ") || first.contains(" 204 ");
        let body = match sized_body(stream, &headers)? {
            Some(body) => body,
            None if bodiless => Vec::new(),
            None => rest(stream),
        };
        Ok(Self { first, headers, body })
    }

    /// The value of a header that is there once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self
            .headers
            .iter()
            .filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} is there twice: {:?}", self.headers);
        value
    }

    /// The status of an answer.
    pub(crate) fn status(&self) -> u16 {
        let code = self.first.split(' ').nth(1).and_then(|code| code.parse().ok());
        code.unwrap_or_else(|| panic!("no answer of HTTP: {:?}", self.first))
    }

    /// The body of an answer.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

type Headers = Vec<(String, String)>;

fn head(stream: &mut Stream) -> io::Result<Option<(String, Headers)>> {
    let Some(first) = line(stream)? else {
        return Ok(None);
    };
    let mut headers = Vec::new();
    while let Some(line) = line(stream)?.filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or_else(|| io::Error::other(line.clone()))?;
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    Ok(Some((first, headers)))
}

fn line(stream: &mut Stream) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line)?;
    let text = String::from_utf8_lossy(&line);
    Ok((!line.is_empty()).then(|| text.trim_end_matches(['\r', '\n']).to_owned()))
}

fn sized_body(stream: &mut Stream, headers: &Headers) -> io::Result<Option<Vec<u8>>> {
    let value = |name: &str| {
        headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, v)| v)
    };
    if value("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked")) {
        return chunks(stream).map(Some);
    }
    let Some(length) = value("content-length") else {
        return Ok(None);
    };
    let mut body = vec![0; length.parse().map_err(io::Error::other)?];
    stream.read_exact(&mut body)?;
    Ok(Some(body))
}

fn chunks(stream: &mut Stream) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = line(stream)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let size = usize::from_str_radix(&size, 16).map_err(io::Error::other)?;
        let start = body.len();
        body.resize(start + size, 0);
        stream.read_exact(&mut body[start..])?;
        line(stream)?;
        if size == 0 {
            return Ok(body);
        }
    }
}

/// All that comes until the other side ends, however it does.
pub(crate) fn rest(stream: &mut Stream) -> Vec<u8> {
    let mut all = Vec::new();
    // An end without a farewell of TLS is an error to rustls; what came before it counts.
    let _ = stream.read_to_end(&mut all);
    all
}

/// A socket with patience.
pub(crate) fn socket(port: u16) -> TcpStream {
    let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the port is served");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    socket.set_write_timeout(Some(PATIENCE)).expect("a timeout can be set");
    socket
}

/// A plain connection.
pub(crate) fn connect(port: u16) -> Stream {
    BufReader::new(Box::new(socket(port)))
}

/// A connection of TLS that asks for `name` and verifies it.
pub(crate) fn connect_tls(port: u16, config: &Arc<ClientConfig>, name: &str) -> Stream {
    let name = ServerName::try_from(name.to_owned()).expect("a DNS name");
    let connection = ClientConnection::new(Arc::clone(config), name).expect("a usable configuration");
    BufReader::new(Box::new(StreamOwned::new(connection, socket(port))))
}

/// Sends text as it is.
pub(crate) fn send(stream: &mut Stream, bytes: &[u8]) -> io::Result<()> {
    let wire = stream.get_mut();
    wire.write_all(bytes)?;
    wire.flush()
}

/// Sends a request as it is and reads its answer.
pub(crate) fn ask(stream: &mut Stream, request: &str) -> Message {
    try_ask(stream, request).unwrap_or_else(|e| panic!("no answer to {:?}: {e}", request.lines().next()))
}

/// The same where there may be no answer.
pub(crate) fn try_ask(stream: &mut Stream, request: &str) -> io::Result<Message> {
    send(stream, request.as_bytes())?;
    Message::read_answer(stream)
}

/// A whole GET request.
pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: web.shop\r\n\r\n")
}

/// A whole POST request.
pub(crate) fn post(path: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: web.shop\r\nContent-Length: {length}\r\n\r\n{body}")
}
