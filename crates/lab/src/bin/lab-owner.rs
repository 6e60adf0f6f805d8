//! Brings up a small lab below the given directory, says where on standard output, and waits to be killed:
//! what the test of a killed owner kills.
#![allow(clippy::print_stdout, reason = "it speaks to the test that started it")]

use lab::{Lab, Spec};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let base = std::env::args().nth(1).ok_or("usage: lab-owner <directory>")?;
    let lab = Lab::up(&Spec::new(&[("a", 1), ("b", 1)]), base.as_ref()).await?;
    println!("{}", serde_json::to_string(&lab.status().await)?);
    lab.asked_down().await;
    lab.down().await?;
    Ok(())
}
