//! Stands between a store and the server, and writes down what is sent.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use sqlx::postgres::PgConnectOptions;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// The texts of the statements that were executed, in order. The wire is cut when the test's runtime ends.
#[derive(Clone, Default)]
pub(crate) struct Wire(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    executed: Vec<String>,
    trips: usize,
}

impl Wire {
    /// A wire to the server, and the URL that leads through it.
    pub(crate) async fn tap(url: &str) -> (Self, String) {
        let options: PgConnectOptions = url.parse().unwrap();
        let server = format!("{}:{}", options.get_host(), options.get_port());
        assert!(url.contains(&server), "the URL names host and port");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = listener.local_addr().unwrap().to_string();
        let tapped = format!("{}?sslmode=disable", url.replace(&server, &here));
        let wire = Self::default();
        let log = wire.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&server).await.unwrap();
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let (requests, mut to_client) = client.into_split();
                let (mut replies, to_server) = server.into_split();
                tokio::spawn(async move { tokio::io::copy(&mut replies, &mut to_client).await });
                tokio::spawn(forward(requests, to_server, log.clone()));
            }
        });
        (wire, tapped)
    }

    /// What was executed since the last look.
    pub(crate) fn executed(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap()).executed
    }

    /// How often an answer was waited for since the last look at what was executed.
    #[allow(dead_code, reason = "each test program uses a part of it")]
    pub(crate) fn trips(&self) -> usize {
        self.0.lock().unwrap().trips
    }
}

/// Passes the frontend's messages on, each after it was written down, so that it stands there before the answer comes. The
/// layout is that of the chapter "Message Formats" of the server's manual.
async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, log: Wire) -> io::Result<()> {
    // The first message of a connection has no type.
    let mut message = vec![0; 4];
    from.read_exact(&mut message).await?;
    read_rest(&mut from, &mut message, 0).await?;
    to.write_all(&message).await?;

    let (mut parsed, mut bound) = (HashMap::new(), HashMap::new());
    loop {
        let mut message = vec![0; 5];
        from.read_exact(&mut message).await?;
        read_rest(&mut from, &mut message, 1).await?;
        let mut texts = message[5..].split(|byte| *byte == 0).map(String::from_utf8_lossy);
        let mut next = || texts.next().unwrap_or_default().into_owned();
        match message[0] {
            b'P' => {
                let name = next();
                parsed.insert(name, next());
            }
            b'B' => {
                let (portal, name) = (next(), next());
                bound.insert(portal, parsed.get(&name).cloned().unwrap_or(name));
            }
            b'E' => log.0.lock().unwrap().executed.push(bound[&next()].clone()),
            b'Q' => {
                let mut seen = log.0.lock().unwrap();
                seen.executed.push(next());
                seen.trips += 1;
            }
            b'S' => log.0.lock().unwrap().trips += 1,
            _ => {}
        }
        to.write_all(&message).await?;
    }
}

/// Reads what is left of a message whose length stands at `at`.
async fn read_rest(from: &mut OwnedReadHalf, message: &mut Vec<u8>, at: usize) -> io::Result<()> {
    let length = u32::from_be_bytes(message[at..at + 4].try_into().unwrap());
    let begun = message.len();
    message.resize(at + length as usize, 0);
    from.read_exact(&mut message[begun..]).await?;
    Ok(())
}
