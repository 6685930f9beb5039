//! Every way to be let in, and every way to be turned away.

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
};
use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use super::*;
use crate::domain::{ExternalId, PrincipalType, Timestamp};

const NOW_SECS: i64 = 1_795_953_600;
const SECRET: &str = "a secret of at least thirty-two bytes";

fn now() -> Timestamp {
    Timestamp::from_millis(NOW_SECS * 1_000)
}

/// A private key, and its public half as a PEM file.
struct Pair {
    algorithm: Algorithm,
    private: EncodingKey,
    pem: String,
}

fn pem_of(der: impl AsRef<[u8]>) -> String {
    pem::encode(&pem::Pem::new("PUBLIC KEY", der.as_ref()))
}

fn pkcs8_pem(der: impl AsRef<[u8]>) -> String {
    pem::encode(&pem::Pem::new("PRIVATE KEY", der.as_ref()))
}

fn rsa() -> Pair {
    let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let private: Pkcs8V1Der<'_> = pair.as_der().unwrap();
    let public: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
    Pair {
        algorithm: Algorithm::RS256,
        private: EncodingKey::from_rsa_pem(pkcs8_pem(private.as_ref()).as_bytes()).unwrap(),
        pem: pem_of(public.as_ref()),
    }
}

fn ec() -> Pair {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let public: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
    Pair {
        algorithm: Algorithm::ES256,
        private: EncodingKey::from_ec_der(pair.to_pkcs8v1().unwrap().as_ref()),
        pem: pem_of(public.as_ref()),
    }
}

fn ed() -> Pair {
    let pair = Ed25519KeyPair::generate().unwrap();
    let public: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
    Pair {
        algorithm: Algorithm::EdDSA,
        private: EncodingKey::from_ed_der(pair.to_pkcs8v1().unwrap().as_ref()),
        pem: pem_of(public.as_ref()),
    }
}

fn claims() -> Value {
    json!({"sub": "1001", "typ": "USER", "exp": NOW_SECS + 60})
}

fn with(field: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[field] = value;
    claims
}

fn signed(pair: &Pair, claims: &Value) -> String {
    encode(&Header::new(pair.algorithm), claims, &pair.private).unwrap()
}

fn hs256(claims: &Value) -> String {
    let key = EncodingKey::from_secret(SECRET.as_bytes()).unwrap();
    encode(&Header::new(Algorithm::HS256), claims, &key).unwrap()
}

fn by_secret() -> Authenticator {
    let mut keys = Keys::default();
    keys.add_secret(SECRET).unwrap();
    Authenticator::new(keys, None, None)
}

fn by_pem(pem: &str) -> Authenticator {
    let mut keys = Keys::default();
    keys.add_pem(pem).unwrap();
    Authenticator::new(keys, None, None)
}

fn by_jwks(keys: Vec<Jwk>) -> Authenticator {
    let mut all = Keys::default();
    all.add_jwks(&serde_json::to_string(&JwkSet { keys }).unwrap()).unwrap();
    Authenticator::new(all, None, None)
}

fn jwk(pair: &Pair, kid: Option<&str>) -> Jwk {
    let public = jsonwebtoken::DecodingKey::from_ed_pem(pair.pem.as_bytes());
    let public = public.or_else(|_| jsonwebtoken::DecodingKey::from_ec_pem(pair.pem.as_bytes()));
    let public = public.or_else(|_| jsonwebtoken::DecodingKey::from_rsa_pem(pair.pem.as_bytes()));
    let mut jwk = Jwk::from_decoding_key(&public.unwrap(), Some(pair.algorithm)).unwrap();
    jwk.common.key_id = kid.map(str::to_owned);
    jwk
}

fn named(pair: &Pair, kid: &str) -> String {
    let mut header = Header::new(pair.algorithm);
    header.kid = Some(kid.to_owned());
    encode(&header, &claims(), &pair.private).unwrap()
}

/// A token put together by hand, as a forger would.
fn forged(header: &Value, claims: &Value, signature: &str) -> String {
    let part = |value: &Value| base64_url(value.to_string().as_bytes());
    format!("{}.{}.{signature}", part(header), part(claims))
}

fn base64_url(bytes: &[u8]) -> String {
    let body: String = pem::encode(&pem::Pem::new("X", bytes))
        .lines()
        .filter(|line| !line.starts_with('-'))
        .collect();
    body.trim_end_matches('=').replace('+', "-").replace('/', "_")
}

#[test]
fn each_algorithm_lets_its_own_tokens_in() {
    let good = |authenticator: &Authenticator, token: &str| {
        let claims = authenticator.verify(token, now()).unwrap();
        assert_eq!(claims.subject.name, Name::Id(1001));
        assert_eq!(claims.expires_at, Timestamp::from_millis((NOW_SECS + 60) * 1_000));
    };
    good(&by_secret(), &hs256(&claims()));
    for pair in [rsa(), ec(), ed()] {
        let token = signed(&pair, &claims());
        good(&by_pem(&pair.pem), &token);
        good(&by_jwks(vec![jwk(&pair, None)]), &token);
    }
}

#[test]
fn a_token_of_another_key_or_with_altered_words_is_refused() {
    for (mine, other) in [(rsa(), rsa()), (ec(), ec()), (ed(), ed())] {
        let token = signed(&other, &claims());
        assert_eq!(
            by_pem(&mine.pem).verify(&token, now()),
            Err(AuthError::Signature),
            "{:?}",
            mine.algorithm
        );
    }
    let token = hs256(&claims());
    let other = hs256(&with("sub", json!("1")));
    let (head, signature) = token.rsplit_once('.').unwrap();
    let spliced = format!("{}.{signature}", other.rsplit_once('.').unwrap().0);
    assert_eq!(by_secret().verify(&spliced, now()), Err(AuthError::Signature));
    for signature in ["", "AAAA", "not base64!"] {
        assert!(
            by_secret().verify(&format!("{head}.{signature}"), now()).is_err(),
            "{signature}"
        );
    }
}

#[test]
fn alg_none_and_every_other_algorithm_are_refused() {
    let all = {
        let mut keys = Keys::default();
        keys.add_secret(SECRET).unwrap();
        keys.add_pem(&rsa().pem).unwrap();
        Authenticator::new(keys, None, None)
    };
    for none in ["none", "None", "NONE", ""] {
        for signature in ["", "AAAA"] {
            let token = forged(&json!({"alg": none, "typ": "JWT"}), &claims(), signature);
            assert!(all.verify(&token, now()).is_err(), "{none:?}");
        }
    }
    let secret = EncodingKey::from_secret(SECRET.as_bytes()).unwrap();
    for algorithm in [Algorithm::HS384, Algorithm::HS512] {
        let token = encode(&Header::new(algorithm), &claims(), &secret).unwrap();
        assert_eq!(all.verify(&token, now()), Err(AuthError::Algorithm), "{algorithm:?}");
    }
    let pair = rsa();
    for algorithm in [Algorithm::RS384, Algorithm::RS512, Algorithm::PS256] {
        let token = encode(&Header::new(algorithm), &claims(), &pair.private).unwrap();
        assert_eq!(
            by_pem(&pair.pem).verify(&token, now()),
            Err(AuthError::Algorithm),
            "{algorithm:?}"
        );
    }
}

#[test]
fn a_public_key_is_never_taken_for_a_secret() {
    for pair in [rsa(), ec(), ed()] {
        let as_secret = EncodingKey::from_secret(pair.pem.as_bytes()).unwrap();
        let token = encode(&Header::new(Algorithm::HS256), &claims(), &as_secret).unwrap();
        assert_eq!(by_pem(&pair.pem).verify(&token, now()), Err(AuthError::UnknownKey));
    }
    // Nor does the secret let in what names another algorithm.
    assert_eq!(
        by_secret().verify(&signed(&rsa(), &claims()), now()),
        Err(AuthError::UnknownKey)
    );
}

#[test]
fn keys_of_a_set_are_found_by_kid_and_never_guessed() {
    let (one, two, other) = (ec(), ec(), ed());
    let set = by_jwks(vec![
        jwk(&one, Some("one")),
        jwk(&two, Some("two")),
        jwk(&other, Some("other")),
    ]);
    assert!(set.verify(&named(&one, "one"), now()).is_ok());
    assert!(set.verify(&named(&two, "two"), now()).is_ok());
    assert_eq!(set.verify(&named(&one, "two"), now()), Err(AuthError::Signature));
    assert_eq!(
        set.verify(&named(&one, "three"), now()),
        Err(AuthError::UnknownKey),
        "two could fit"
    );
    assert_eq!(
        set.verify(&signed(&one, &claims()), now()),
        Err(AuthError::UnknownKey),
        "two could fit"
    );
    assert!(
        set.verify(&signed(&other, &claims()), now()).is_ok(),
        "the only one for EdDSA"
    );
    assert_eq!(
        set.verify(&named(&one, "other"), now()),
        Err(AuthError::UnknownKey),
        "of another algorithm"
    );
}

#[test]
fn keys_that_cannot_be_used_are_refused_at_the_start() {
    let mut keys = Keys::default();
    assert_eq!(keys.add_secret(""), Err(KeyError::EmptySecret));
    let p384 = EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap();
    let public: PublicKeyX509Der<'_> = p384.public_key().as_der().unwrap();
    for bad in ["", "no pem", &pem_of(b"no key"), &pem_of(public.as_ref())] {
        assert_eq!(keys.add_pem(bad), Err(KeyError::Pem), "{bad}");
    }
    for (bad, error) in [
        ("{}", KeyError::Jwks),
        ("[]", KeyError::Jwks),
        ("{\"keys\":[]}", KeyError::NoKey),
    ] {
        assert_eq!(keys.add_jwks(bad), Err(error), "{bad}");
    }
    let symmetric = json!({"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}).to_string();
    assert_eq!(
        keys.add_jwks(&symmetric),
        Err(KeyError::NoKey),
        "a secret does not belong into a public set"
    );
    let mut sealed = jwk(&ec(), None);
    sealed.common.public_key_use = Some(jsonwebtoken::jwk::PublicKeyUse::Encryption);
    let many = JwkSet { keys: vec![sealed; 65] };
    assert_eq!(
        keys.add_jwks(&serde_json::to_string(&many).unwrap()),
        Err(KeyError::TooMany)
    );
    let one = JwkSet {
        keys: many.keys[..1].to_vec(),
    };
    assert_eq!(
        keys.add_jwks(&serde_json::to_string(&one).unwrap()),
        Err(KeyError::NoKey)
    );
}

#[test]
fn exp_is_required_and_is_over_at_its_second() {
    let refused = |exp: Value| by_secret().verify(&hs256(&with("exp", exp)), now());
    for missing in [Value::Null, json!("soon"), json!(true)] {
        assert_eq!(refused(missing), Err(AuthError::NoExpiry));
    }
    let mut none = claims();
    none.as_object_mut().unwrap().remove("exp");
    assert_eq!(by_secret().verify(&hs256(&none), now()), Err(AuthError::NoExpiry));
    assert_eq!(refused(json!(NOW_SECS)), Err(AuthError::Expired));
    assert_eq!(refused(json!(NOW_SECS - 1)), Err(AuthError::Expired));
    assert_eq!(refused(json!(-1)), Err(AuthError::Expired));
    assert!(refused(json!(NOW_SECS + 1)).is_ok());
    let half = refused(json!(1_795_953_600.5)).unwrap();
    assert_eq!(half.expires_at, Timestamp::from_millis(NOW_SECS * 1_000 + 500));
    assert!(refused(json!(i64::MAX)).is_ok(), "far away is not wrong");
}

#[test]
fn nbf_is_looked_at_when_it_is_there() {
    let of = |nbf: Value| by_secret().verify(&hs256(&with("nbf", nbf)), now()).map(drop);
    assert_eq!(of(json!(NOW_SECS)), Ok(()));
    assert_eq!(of(json!(NOW_SECS + 1)), Err(AuthError::NotYet));
    assert_eq!(of(json!("later")), Err(AuthError::NotYet));
}

#[test]
fn a_sub_is_an_id_or_an_external_id() {
    let name = |sub: Value| {
        by_secret()
            .verify(&hs256(&with("sub", sub)), now())
            .map(|claims| claims.subject.name)
    };
    assert_eq!(name(json!("9223372036854775807")), Ok(Name::Id(i64::MAX)));
    for external in ["9223372036854775808", "0", "007", "ann@example.org", "键"] {
        assert_eq!(
            name(json!(external)),
            Ok(Name::External(ExternalId::parse(external).unwrap()))
        );
    }
    for bad in [
        json!(""),
        json!("x".repeat(129)),
        json!("tab\there"),
        json!("nul\u{0}"),
        json!(7),
        Value::Null,
    ] {
        assert_eq!(name(bad), Err(AuthError::Subject));
    }
}

#[test]
fn typ_is_user_or_agent_and_user_when_absent() {
    let kind = |typ: Value| {
        by_secret()
            .verify(&hs256(&with("typ", typ)), now())
            .map(|claims| claims.subject.kind)
    };
    assert_eq!(kind(Value::Null), Ok(PrincipalType::User));
    assert_eq!(kind(json!("AGENT")), Ok(PrincipalType::Agent));
    for bad in [json!("SYSTEM"), json!("user"), json!("ADMIN"), json!(""), json!(1)] {
        assert_eq!(kind(bad), Err(AuthError::Type));
    }
}

#[test]
fn issuer_and_audience_are_required_where_configured() {
    let mut keys = Keys::default();
    keys.add_secret(SECRET).unwrap();
    let strict = Authenticator::new(keys, Some("us".to_owned()), Some("chat".to_owned()));
    let verify = |iss: Value, aud: Value| {
        let mut claims = claims();
        claims["iss"] = iss;
        claims["aud"] = aud;
        strict.verify(&hs256(&claims), now()).map(drop)
    };
    assert_eq!(verify(json!("us"), json!("chat")), Ok(()));
    assert_eq!(verify(json!("us"), json!(["other", "chat"])), Ok(()));
    for bad in [json!("them"), Value::Null, json!(7)] {
        assert_eq!(verify(bad, json!("chat")), Err(AuthError::Issuer));
    }
    for bad in [json!("other"), json!(["other"]), json!([]), Value::Null, json!(7)] {
        assert_eq!(verify(json!("us"), bad), Err(AuthError::Audience));
    }
    let unasked = with("aud", json!("anything"));
    assert!(
        by_secret().verify(&hs256(&unasked), now()).is_ok(),
        "not configured, not looked at"
    );
}

#[test]
fn what_is_no_token_is_refused_without_a_word_of_it() {
    for bad in ["", "a", "a.b", "a.b.c", "a.b.c.d", "....", &"x".repeat(9_000), "é.é.é"] {
        let refusal = by_secret().verify(bad, now()).unwrap_err();
        assert_eq!(refusal, AuthError::Malformed, "{bad:?}");
        assert!(!refusal.to_string().contains("x.x") && !refusal.to_string().contains('é'));
    }
    let debug = format!("{:?}", by_secret());
    assert!(!debug.contains(SECRET), "{debug}");
}

#[test]
fn minted_tokens_are_let_in() {
    let until = Timestamp::from_millis(NOW_SECS * 1_000 + 5_999);
    let token = mint(SECRET, "ann", PrincipalType::Agent, until, Some("us"), None).unwrap();
    let claims = by_secret().verify(&token, now()).unwrap();
    assert_eq!(claims.subject.kind, PrincipalType::Agent);
    assert_eq!(
        claims.expires_at,
        Timestamp::from_millis(NOW_SECS * 1_000 + 5_000),
        "cut to the second"
    );
    assert_eq!(
        mint("", "ann", PrincipalType::User, until, None, None),
        Err(KeyError::EmptySecret)
    );
}
