//! A slow line: `delay SERVER-PORT MILLISECONDS` prints its own port and passes bytes on, each client's bytes later by
//! the delay, and the first ones by one delay more for the TCP handshake that loopback does not feel. TLS goes through.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

fn main() {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse::<u64>().expect("a number"));
    let port = u16::try_from(arguments.next().expect("a port")).expect("a port");
    let delay = Duration::from_millis(arguments.next().expect("milliseconds"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    println!("{}", listener.local_addr().expect("an address").port());
    for client in listener.incoming().flatten() {
        let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (Ok(from), Ok(to)) = (client.try_clone(), server.try_clone()) else { continue };
        let ready = Instant::now() + delay;
        thread::spawn(move || up(from, to, delay, ready));
        thread::spawn(move || down(server, client));
    }
}

fn up(mut from: TcpStream, mut to: TcpStream, delay: Duration, ready: Instant) {
    let (line, end) = mpsc::channel::<(Instant, Vec<u8>)>();
    let writer = thread::spawn(move || {
        for (due, bytes) in end {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                return;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
    let mut buffer = vec![0; 65536];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let due = Instant::now().max(ready) + delay;
        if line.send((due, buffer[..length].to_vec())).is_err() {
            break;
        }
    }
    drop(line);
    let _ = writer.join();
}

fn down(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
}
