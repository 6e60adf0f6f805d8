//! `headroom agent` as a child process beside a lab, with the lab's router in front of the servers.

use crate::support::route::Route;
use crate::support::told;
use lab::Lab;
use mysql_async::Opts;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

/// Both ended when dropped.
pub(crate) struct Watched {
    child: Child,
    pub(crate) route: Router,
    pub(crate) address: SocketAddr,
}

/// The router.
pub(crate) struct Router(pub(crate) Route);

impl Router {
    /// How a client connects to its listener for readers.
    pub(crate) fn told_options(&self, lab: &Lab) -> Opts {
        told::options(lab, *self.0.reader.ip(), self.0.reader.port()).into()
    }
}

impl Watched {
    /// Starts a router in zone a and, with the same file, an agent; waits until the agent has read every
    /// server. The file has `more` in it.
    pub(crate) async fn start_with(lab: &Lab, more: &str) -> Self {
        let mut servers = format!("[fleet]\nseeds = [\"{}\"]\n", lab.reach("a", "a1").unwrap());
        for ((says, reach), name) in lab.address_map("a").unwrap().into_iter().zip(lab.servers()) {
            servers.push_str(&format!("[[map]]\nsays = \"{says}\"\nreach = \"{reach}\"\n"));
            servers.push_str(&format!("[[server]]\nmatch = \"{says}\"\nname = \"{name}\"\n"));
        }
        servers.push_str(more);
        let mut route = Route::new(lab, "zero_hop = \"off\"", "", &servers);
        route.start();
        route.wait_for("a primary", |status| status["writer"] == "a1").await;
        let address = SocketAddr::new(lab.client_address("a", 33).unwrap().into(), lab.port());
        let log = std::fs::File::create(lab.dir().join("agent.log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_headroom"))
            .args(["agent", "--window", "5s", "--listen", &address.to_string(), "--config"])
            .arg(&route.file)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let agent = Self { child, route: Router(route), address };
        agent
            .told(lab)
            .wait_until("every server is read", "/watch.json", |view| {
                let servers = view["servers"].as_array();
                servers.is_some_and(|servers| {
                    servers.len() == lab.servers().len() && servers.iter().all(|s| !s["sample"].is_null())
                })
            })
            .await;
        agent
    }

    /// What the agent says.
    pub(crate) fn told(&self, lab: &Lab) -> told::Told {
        told::Told { admin: self.address, log: lab.dir().join("agent.log") }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
