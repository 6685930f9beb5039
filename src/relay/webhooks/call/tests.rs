//! Calls to receivers on this machine, and names that lead where they like.

use std::collections::VecDeque;
use std::sync::Mutex;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

const TIMEOUT: Duration = Duration::from_millis(700);

/// Each time a name is looked for it leads somewhere else; at last it stays.
struct Names(Mutex<VecDeque<Vec<IpAddr>>>);

#[async_trait]
impl Lookup for Names {
    async fn lookup(&self, _: &str) -> std::io::Result<Vec<IpAddr>> {
        let mut answers = self.0.lock().unwrap();
        let answer = answers.pop_front().unwrap_or_default();
        if answers.is_empty() {
            answers.push_back(answer.clone());
        }
        Ok(answer)
    }
}

fn http(allow_private: bool, answers: &[&[&str]]) -> Http {
    let addresses = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
    let names = Names(Mutex::new(answers.iter().map(addresses).collect()));
    Http::new(TIMEOUT, allow_private, Arc::new(names)).unwrap()
}

fn call(url: &str) -> Call {
    Call {
        url: url.to_owned(),
        webhook_id: "evt_1_2".to_owned(),
        timestamp: 7,
        signatures: "v1,a v1,b".to_owned(),
        body: "{}".to_owned(),
    }
}

async fn why(http: &Http, url: &str) -> String {
    match http.post(&call(url)).await {
        Answer::Taken => "taken".to_owned(),
        Answer::Failed { why, .. } => why,
    }
}

/// A receiver that answers every call with this, and what it got.
async fn receiver(answer: &str) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let got = Arc::<Mutex<Vec<String>>>::default();
    let (calls, answer) = (Arc::clone(&got), answer.to_owned());
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut bytes = vec![0; 4_096];
            let read = socket.read(&mut bytes).await.unwrap();
            calls
                .lock()
                .unwrap()
                .push(String::from_utf8_lossy(&bytes[..read]).into_owned());
            socket.write_all(answer.as_bytes()).await.unwrap();
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
    });
    (port, got)
}

#[tokio::test]
async fn a_call_has_the_headers_of_the_specification() {
    let (port, got) = receiver("HTTP/1.1 204 No Content\r\n\r\n").await;
    assert_eq!(
        why(&http(true, &[]), &format!("http://127.0.0.1:{port}/hook?a=b")).await,
        "taken"
    );
    let got = got.lock().unwrap()[0].to_ascii_lowercase();
    for part in [
        "post /hook?a=b http/1.1",
        "content-type: application/json",
        "webhook-id: evt_1_2",
        "webhook-timestamp: 7",
        "webhook-signature: v1,a v1,b",
        "user-agent: onescribe/",
    ] {
        assert!(got.contains(part), "{part} in {got}");
    }
}

#[tokio::test]
async fn whatever_is_no_2xx_in_time_is_a_failure_with_a_reason() {
    for (answer, reason) in [
        ("HTTP/1.1 500 X\r\ncontent-length: 0\r\n\r\n", "HTTP 500"),
        ("HTTP/1.1 410 X\r\ncontent-length: 0\r\n\r\n", "HTTP 410"),
        (
            "HTTP/1.1 302 X\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
            "HTTP 302: redirects are not followed",
        ),
        ("", "no answer in time (webhooks.timeout_secs)"),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf",
            "no answer in time (webhooks.timeout_secs)",
        ),
    ] {
        let (port, _) = receiver(answer).await;
        assert_eq!(
            why(&http(true, &[]), &format!("http://127.0.0.1:{port}/")).await,
            reason,
            "{answer}"
        );
    }
    let nobody = why(&http(true, &[]), "http://127.0.0.1:1/secret-path").await;
    assert!(
        nobody.contains("refused") && !nobody.contains("secret-path"),
        "{nobody}"
    );
}

#[tokio::test]
async fn a_receiver_may_ask_to_be_left_alone() {
    let (port, _) = receiver("HTTP/1.1 429 X\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n").await;
    let answer = http(true, &[]).post(&call(&format!("http://127.0.0.1:{port}/"))).await;
    let retry_after = Some(Duration::from_secs(7));
    assert_eq!(answer, failed("HTTP 429".to_owned(), retry_after));
}

#[tokio::test]
async fn ssrf_addresses_in_numbers_are_looked_at_in_every_spelling() {
    let strict = http(false, &[&["127.0.0.1"]]);
    for url in [
        "http://127.0.0.1:8080/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://[fd00::1]/",
        "http://localhost/",
        "http://LOCALHOST./",
        "https://receiver.example/",
    ] {
        let refused = strict.check(url).await.unwrap_err();
        assert!(
            refused.field == "url" && refused.hint.contains("private"),
            "{url}: {refused:?}"
        );
        let why = why(&strict, url).await;
        assert!(why.contains("private"), "{url}: {why}");
        assert_eq!(http(true, &[&["127.0.0.1"]]).check(url).await, Ok(()), "{url}");
    }
    for url in [
        "",
        "receiver",
        "ftp://1.1.1.1/",
        "file:///etc/passwd",
        "http://",
        "https://ann:pw@1.1.1.1/",
    ] {
        assert!(strict.check(url).await.is_err(), "{url}");
    }
    assert_eq!(strict.check("https://1.1.1.1/").await, Ok(()));
    assert!(
        strict
            .check(&format!("https://1.1.1.1/{}", "x".repeat(2_048)))
            .await
            .is_err()
    );
}

#[tokio::test]
async fn ssrf_a_name_that_leads_elsewhere_a_moment_later_is_not_followed() {
    let (port, got) = receiver("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let url = format!("http://receiver.example:{port}/");
    let rebinding = http(false, &[&["8.8.8.8"], &["127.0.0.1"]]);
    assert_eq!(rebinding.check(&url).await, Ok(()));
    assert!(why(&rebinding, &url).await.contains("private"));
    assert_eq!(got.lock().unwrap().len(), 0);
    // Of several addresses only those are called that may be.
    let mixed = http(false, &[&["10.0.0.1", "8.8.8.8", "::1"]]);
    assert_eq!(
        mixed.guard.addresses("x").await.unwrap(),
        ["8.8.8.8".parse::<IpAddr>().unwrap()]
    );
    assert_eq!(why(&http(true, &[&["127.0.0.1"]]), &url).await, "taken");
}

#[tokio::test]
async fn ssrf_no_redirect_is_followed_whatever_its_status_and_wherever_it_leads() {
    let (inside, got) = receiver("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    for status in [300, 301, 302, 303, 307, 308] {
        for place in [
            format!("http://127.0.0.1:{inside}/"),
            format!("//localhost:{inside}/"),
            format!("http://[::ffff:127.0.0.1]:{inside}/"),
        ] {
            let answer = format!("HTTP/1.1 {status} X\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n");
            let (port, _) = receiver(&answer).await;
            // The receiver itself may be called; allowing private addresses does not make redirects good.
            let why = why(&http(true, &[&["127.0.0.1"]]), &format!("http://127.0.0.1:{port}/")).await;
            assert_eq!(why, format!("HTTP {status}: redirects are not followed"), "{place}");
        }
    }
    assert_eq!(got.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn ssrf_a_name_that_leads_to_any_form_of_a_private_address_is_not_called() {
    let (port, got) = receiver("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    for address in [
        "127.0.0.1",
        "169.254.169.254",
        "10.1.2.3",
        "::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::1",
        "fe80::1",
        "fd00::1",
    ] {
        let strict = http(false, &[&[address]]);
        let url = format!("http://receiver.example:{port}/");
        let refused = strict.check(&url).await.unwrap_err();
        assert!(refused.hint.contains("private"), "{address}: {refused:?}");
        let why = why(&strict, &url).await;
        assert!(why.contains("private"), "{address}: {why}");
    }
    assert_eq!(got.lock().unwrap().len(), 0);
}
