//! The agent's page behind TLS and a token, in a real browser: whoever trusts the certificate and types the
//! token sees it whole, and nobody else sees anything of it.

use crate::support::agent::{Agent, TOKEN};
use crate::support::browser::Browser;
use crate::support::secrets::Secrets;
use lab::{Account, Lab, Spec};

#[tokio::test]
async fn the_page_is_whole_behind_tls_for_whoever_types_the_token_and_nothing_for_others() {
    let (base, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let lab = Lab::up(&Spec::new(&[("a", 1)]), base.path()).await.unwrap();
    let secrets = Secrets::new(dir.path(), TOKEN);
    let mut args = secrets.args();
    let (at, file) = (lab.real("a1").unwrap().to_string(), lab.credentials_file(Account::Headroom));
    let file = file.display().to_string();
    args.extend(["--server", &at, "--option-file", &file, "--window", "2s"].map(str::to_owned));
    // Every address of the machine: what TLS and a token are for.
    let args: Vec<&str> =
        ["--listen", "0.0.0.0:0"].into_iter().chain(args.iter().map(String::as_str)).collect();
    let agent = Agent::start(dir.path(), "agent", &args);
    let port = agent.address.port();
    let url = format!("https://localhost:{port}/");

    let mut browser = Browser::trusting(&secrets.fingerprint());
    browser.type_password(TOKEN);
    let mut page = browser.open(&url, 1280, "light").await;
    page.wait_for("document.querySelectorAll('#panels .panel').length === 2").await;
    page.wait_for("document.querySelectorAll('#panels .chart path').length > 8").await;
    page.wait_for("document.querySelectorAll('.map .server').length === 1").await;
    page.wait_for("document.querySelectorAll('#timeline .course i').length > 1").await;
    assert_eq!(page.is("window.isSecureContext && location.protocol").await, "https:");
    page.is("document.querySelector('#compare .main').click()").await;
    page.wait_for("document.querySelector('#compared').textContent.includes('interval')").await;
    page.picture("sealed.png").await;
    drop(page);
    assert!(browser.was_asked() >= 1, "the browser asks a person for the token");

    // Kept in a bookmark, with the token in the address: its own questions work too.
    let kept = format!("https://me:{TOKEN}@localhost:{port}/");
    let mut page = browser.open(&kept, 375, "dark").await;
    page.wait_for("document.querySelectorAll('#panels .chart path').length > 8").await;
    assert_eq!(page.is("document.documentElement.scrollWidth").await, 375);
    drop(page);
    assert_eq!(browser.complaints(), [""; 0], "no exception, nothing refused by the policy");
    drop(browser);

    // Another token, typed until nobody goes on asking.
    let mut browser = Browser::trusting(&secrets.fingerprint());
    browser.type_password("not-the-token-of-this-agent");
    let mut page = browser.open(&url, 1280, "light").await;
    page.wait_for("document.body.innerText.includes('this is not the token')").await;
    assert_eq!(page.is("document.querySelector('#panels')").await, serde_json::Value::Null);
    drop(page);
    drop(browser);

    // A browser that does not know the certificate shows a warning in place of the page.
    let mut browser = Browser::start();
    browser.type_password(TOKEN);
    let mut page = browser.open(&url, 1280, "light").await;
    page.wait_for("location.protocol === 'chrome-error:' && document.body.innerText.includes('ERR_CERT')")
        .await;
    drop(page);
    assert_eq!(browser.was_asked(), 0, "and the token is not sent");
    lab.down().await.unwrap();
}
