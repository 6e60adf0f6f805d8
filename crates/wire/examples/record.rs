//! Records one session between a real client and a real server, for `tests/recorded/`.
//!
//! `record SERVER FILE` listens on a free loopback port, prints it, relays one connection to SERVER and
//! writes to FILE what passes, in the order in which it passes: `C` (client) or `S` (server) and the bytes in
//! hexadecimal. Lines from standard input are written between them and answered with `ok`: that is how the
//! driver of a recording puts down what holds at a point.

use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, file] = arguments.as_slice() else {
        return Err(io::Error::other("usage: record SERVER FILE"));
    };
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let file = Arc::new(Mutex::new(File::create(file)?));
    writeln!(io::stdout(), "{}", listener.local_addr()?.port())?;

    let notes = Arc::clone(&file);
    let notes = thread::spawn(move || write_notes(&notes));

    let (client, _) = listener.accept()?;
    let server = TcpStream::connect(server)?;
    let (client_half, server_half, sent) = (client.try_clone()?, server.try_clone()?, Arc::clone(&file));
    let upstream = thread::spawn(move || relay('C', client_half, server_half, &sent));
    relay('S', server, client, &file)?;
    upstream.join().map_err(|_| io::Error::other("the relay of the client's bytes panicked"))??;
    // What holds at the end may still be put down, until standard input is closed.
    notes.join().map_err(|_| io::Error::other("the writer of notes panicked"))?
}

/// Written down before it is passed on, so that no answer can come before its question in the file.
fn relay(mark: char, mut from: TcpStream, mut to: TcpStream, file: &Mutex<File>) -> io::Result<()> {
    let mut buffer = [0; 16_384];
    loop {
        let n = match from.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(n) => n,
        };
        let hex: String = buffer[..n].iter().map(|byte| format!("{byte:02x}")).collect();
        let line = format!("{mark} {hex}\n");
        file.lock()
            .map_err(|_| io::Error::other("the file's lock is poisoned"))?
            .write_all(line.as_bytes())?;
        if to.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    // Either end may have closed already, which is what we wanted.
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
    Ok(())
}

fn write_notes(file: &Mutex<File>) -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        let line = line? + "\n";
        file.lock()
            .map_err(|_| io::Error::other("the file's lock is poisoned"))?
            .write_all(line.as_bytes())?;
        writeln!(io::stdout(), "ok")?;
    }
    Ok(())
}
