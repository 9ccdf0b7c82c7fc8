//! What a Service does, on loopback: each new connection goes to another server that answers. It can
//! also cut the line.

use std::io::copy;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::spawn;

/// Listens until the test program ends; its threads hold nothing that outlives it.
pub(crate) struct Balancer {
    pub(crate) address: SocketAddr,
    replicas: Arc<Mutex<Vec<SocketAddr>>>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl Balancer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let replicas: Arc<Mutex<Vec<SocketAddr>>> = Arc::default();
        let connections: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let (known, open) = (Arc::clone(&replicas), Arc::clone(&connections));
        spawn(move || {
            let turn = AtomicUsize::new(0);
            for connection in listener.incoming().map_while(Result::ok) {
                let replicas = known.lock().unwrap().clone();
                let start = turn.fetch_add(1, Ordering::Relaxed);
                let order = (0..replicas.len()).map(|index| replicas[(start + index) % replicas.len()]);
                // Without one that answers, the connection is dropped.
                if let Some(replica) = order.into_iter().find_map(|replica| TcpStream::connect(replica).ok()) {
                    carry(&connection, &replica);
                    carry(&replica, &connection);
                    open.lock().unwrap().push(connection);
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
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// From now on new connections go to these.
    pub(crate) fn set(&self, replicas: &[SocketAddr]) {
        *self.replicas.lock().unwrap() = replicas.to_vec();
    }
}

/// All bytes of one direction, and its end.
fn carry(from: &TcpStream, to: &TcpStream) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    from.set_nodelay(true).unwrap();
    spawn(move || {
        let _ = copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
}
