//! A real browser, without a window: Chromium as the distribution has it, told what to do over a pipe (the
//! protocol of its own developer tools). One process for all pages of a test; nothing of it is left behind.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// For a machine that others use, too.
const LIMIT: Duration = Duration::from_secs(90);
/// What the distributions call it.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const PATHS: &str = "/usr/local/bin:/usr/bin:/bin:/opt/google/chrome:/snap/bin";

/// Ended when dropped.
pub(crate) struct Browser {
    child: Child,
    pipe: ChildStdin,
    heard: UnboundedReceiver<Value>,
    last: u64,
    /// What pages complained of: exceptions, refused loads, errors on their consoles.
    complaints: Vec<String>,
    /// What a person would type where a site asks for a password.
    password: Option<String>,
    /// How often a site has asked.
    asked: u32,
    _profile: tempfile::TempDir,
}

/// A page that is open.
pub(crate) struct Page<'a> {
    browser: &'a mut Browser,
    session: String,
    target: String,
}

impl Browser {
    /// Starts it. Without one the test fails and says what to install.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same; trusts the certificate whose public key has this SHA-256, base64, whoever signed it.
    pub(crate) fn trusting(key: &str) -> Self {
        Self::start_with(&[format!("--ignore-certificate-errors-spki-list={key}")])
    }

    fn start_with(more: &[String]) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let there = |name: &&&str| PATHS.split(':').any(|folder| Path::new(folder).join(name).exists());
        let program = NAMES.iter().find(there);
        let program = program
            .unwrap_or_else(|| panic!("no browser is installed: scripts/install.sh browser ({NAMES:?})"));
        // Its own ends of the pipe are the descriptors 3 and 4. Its sandbox does not work for root and in
        // most containers; it shows nothing but our own page.
        let line = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut child = Command::new("/bin/sh")
            .args(["-c", line, program])
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .args(["--disable-background-networking", "--disable-component-update", "--no-proxy-server"])
            .args(["--hide-scrollbars", "--remote-debugging-pipe"])
            .args(more)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .env("PATH", PATHS)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (pipe, said) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (hear, heard) = unbounded_channel();
        std::thread::spawn(move || {
            for message in BufReader::new(said).split(0).map_while(Result::ok) {
                if hear.send(serde_json::from_slice(&message).unwrap()).is_err() {
                    return;
                }
            }
        });
        let complaints = Vec::new();
        Self { child, pipe, heard, last: 0, complaints, password: None, asked: 0, _profile: profile }
    }

    /// From now on this is typed where a page asks for a password.
    pub(crate) fn type_password(&mut self, password: &str) {
        self.password = Some(password.to_owned());
    }

    /// How often a page has asked for a password.
    pub(crate) fn was_asked(&self) -> u32 {
        self.asked
    }

    /// Opens a page that is `width` wide, in the `light` or the `dark` scheme.
    pub(crate) async fn open(&mut self, url: &str, width: u32, scheme: &str) -> Page<'_> {
        let target =
            self.ask(None, "Target.createTarget", &json!({ "url": "about:blank" })).await["targetId"].clone();
        let flat = json!({ "targetId": target, "flatten": true });
        let attached = self.ask(None, "Target.attachToTarget", &flat).await;
        let session = attached["sessionId"].as_str().unwrap().to_owned();
        let mut page = Page { browser: self, session, target: target.as_str().unwrap().to_owned() };
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            page.ask(domain, &json!({})).await;
        }
        let size = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600 });
        page.ask("Emulation.setDeviceMetricsOverride", &size).await;
        let media = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        page.ask("Emulation.setEmulatedMedia", &json!({ "features": media })).await;
        if page.browser.password.is_some() {
            page.ask("Fetch.enable", &json!({ "handleAuthRequests": true })).await;
        }
        page.ask("Page.navigate", &json!({ "url": url })).await;
        page
    }

    /// What pages complained of so far.
    pub(crate) fn complaints(&self) -> &[String] {
        &self.complaints
    }

    async fn ask(&mut self, session: Option<&str>, method: &str, parameters: &Value) -> Value {
        let question = self.tell(session, method, parameters);
        loop {
            let heard = tokio::time::timeout(LIMIT, self.heard.recv()).await;
            let message =
                heard.ok().flatten().unwrap_or_else(|| panic!("the browser does not answer {method}"));
            if message["id"] == question {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    /// The number of the question.
    fn tell(&mut self, session: Option<&str>, method: &str, parameters: &Value) -> u64 {
        self.last += 1;
        let mut question = json!({ "id": self.last, "method": method, "params": parameters });
        if let Some(session) = session {
            question["sessionId"] = session.into();
        }
        let mut bytes = serde_json::to_vec(&question).unwrap();
        bytes.push(0);
        self.pipe.write_all(&bytes).unwrap();
        self.last
    }

    fn note(&mut self, message: &Value) {
        let parameters = &message["params"];
        self.let_pass(message["method"].as_str(), message["sessionId"].as_str(), parameters);
        let wrong = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => Some(&parameters["exceptionDetails"]),
            Some("Log.entryAdded") if parameters["entry"]["level"] == "error" => Some(&parameters["entry"]),
            Some("Runtime.consoleAPICalled") if parameters["type"] == "error" => Some(&parameters["args"]),
            _ => None,
        };
        self.complaints.extend(wrong.map(ToString::to_string));
    }
}

impl Browser {
    /// A request that waits for us goes on; where a password is asked for, it is typed.
    fn let_pass(&mut self, method: Option<&str>, session: Option<&str>, parameters: &Value) {
        let request = &parameters["requestId"];
        match (method, self.password.clone()) {
            (Some("Fetch.requestPaused"), _) => {
                self.tell(session, "Fetch.continueRequest", &json!({ "requestId": request }));
            }
            (Some("Fetch.authRequired"), Some(password)) => {
                self.asked += 1;
                // A person who is asked again and again gives up.
                let answer = match self.asked {
                    0..=8 => {
                        json!({ "response": "ProvideCredentials", "username": "me", "password": password })
                    }
                    _ => json!({ "response": "CancelAuth" }),
                };
                let parameters = json!({ "requestId": request, "authChallengeResponse": answer });
                self.tell(session, "Fetch.continueWithAuth", &parameters);
            }
            _ => {}
        }
    }
}

impl Page<'_> {
    async fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        let session = self.session.clone();
        self.browser.ask(Some(&session), method, parameters).await
    }

    /// What an expression of JavaScript is.
    pub(crate) async fn is(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.ask("Runtime.evaluate", &asked).await;
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true, and shows the page's text when it never is.
    pub(crate) async fn wait_for(&mut self, expression: &str) {
        let deadline = Instant::now() + LIMIT;
        // The page may still be a blank one.
        let asked = format!("(() => {{ try {{ return !!({expression}) }} catch {{ return false }} }})()");
        while self.is(&asked).await != true {
            if Instant::now() > deadline {
                panic!("never: {expression}\n{}", self.text().await);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The text that a person sees.
    pub(crate) async fn text(&mut self) -> String {
        self.is("document.body.innerText").await.as_str().unwrap_or_default().to_owned()
    }

    /// A key that is pressed and let go.
    pub(crate) async fn press(&mut self, key: &str, code: u32) {
        for kind in ["rawKeyDown", "char", "keyUp"] {
            let text = if key == "Enter" { "\r" } else { "" };
            let pressed =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
            self.ask("Input.dispatchKeyEvent", &pressed).await;
        }
    }

    /// The whole page as a picture in target/tmp, for people.
    pub(crate) async fn picture(&mut self, name: &str) {
        let asked = json!({ "format": "png", "captureBeyondViewport": true });
        let answer = self.ask("Page.captureScreenshot", &asked).await;
        let picture = from_base64(answer["data"].as_str().unwrap());
        std::fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name), picture).unwrap();
    }
}

impl Drop for Page<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.browser.tell(None, "Target.closeTarget", &json!({ "targetId": self.target }));
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0u32, 0);
    for letter in text.bytes().filter_map(|byte| letters.iter().position(|l| *l == byte)) {
        bits = bits << 6 | u32::try_from(letter).unwrap();
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held & 0xff) as u8);
        }
    }
    bytes
}
