//! What a Service does, on loopback: each new connection goes to another server that answers. It can
//! also cut the line, or have it fall silent.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::spawn;

/// Listens until the test program ends; its threads hold nothing that outlives it.
pub(crate) struct Balancer {
    pub(crate) address: SocketAddr,
    replicas: Arc<Mutex<Vec<SocketAddr>>>,
    connections: Arc<Mutex<Vec<Connection>>>,
}

/// A connection, and whether its bytes are dropped.
struct Connection {
    socket: TcpStream,
    silent: Arc<AtomicBool>,
}

impl Balancer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let replicas: Arc<Mutex<Vec<SocketAddr>>> = Arc::default();
        let connections: Arc<Mutex<Vec<Connection>>> = Arc::default();
        let (known, open) = (Arc::clone(&replicas), Arc::clone(&connections));
        spawn(move || {
            let turn = AtomicUsize::new(0);
            for connection in listener.incoming().map_while(Result::ok) {
                let replicas = known.lock().unwrap().clone();
                let start = turn.fetch_add(1, Ordering::Relaxed);
                let order = (0..replicas.len()).map(|index| replicas[(start + index) % replicas.len()]);
                // Without one that answers, the connection is dropped.
                if let Some(replica) = order.into_iter().find_map(|replica| TcpStream::connect(replica).ok()) {
                    let silent: Arc<AtomicBool> = Arc::default();
                    carry(&connection, &replica, &silent);
                    carry(&replica, &connection, &silent);
                    let socket = connection;
                    open.lock().unwrap().push(Connection { socket, silent });
                }
            }
        });
        Self {
            address,
            replicas,
            connections,
        }
    }

    /// Ends all connections, and lets none through until the next [`Balancer::set`].
    pub(crate) fn cut(&self) {
        self.set(&[]);
        for connection in self.connections.lock().unwrap().drain(..) {
            let _ = connection.socket.shutdown(Shutdown::Both);
        }
    }

    /// From now on nothing comes through the connections that there are, not even their end. New ones work.
    /// So it is when the node or the firewall in between is gone that knew of them.
    pub(crate) fn silence(&self) {
        for connection in self.connections.lock().unwrap().iter() {
            connection.silent.store(true, Ordering::Relaxed);
        }
    }

    /// From now on new connections go to these.
    pub(crate) fn set(&self, replicas: &[SocketAddr]) {
        *self.replicas.lock().unwrap() = replicas.to_vec();
    }
}

/// All bytes of one direction, and its end, unless it is silent.
fn carry(from: &TcpStream, to: &TcpStream, silent: &Arc<AtomicBool>) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    let silent = Arc::clone(silent);
    from.set_nodelay(true).unwrap();
    spawn(move || {
        let mut buffer = [0; 16 * 1024];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            if !silent.load(Ordering::Relaxed) && to.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        if !silent.load(Ordering::Relaxed) {
            let _ = to.shutdown(Shutdown::Write);
        }
    });
}
