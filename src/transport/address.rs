//! From which address a client comes: the connection's, or what a proxy of our own says of it.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use actix_web::HttpRequest;
use ipnet::IpNet;

/// What proxies add, each at the end: the address from which it was asked.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// The client's address. What a stranger claims is not believed: the header is read from its end, only as far as the
/// addresses are those of `trusted` proxies (`server.trusted_proxies`).
pub(super) fn client(request: &HttpRequest, trusted: &[IpNet]) -> Option<IpAddr> {
    let mut client = request.peer_addr()?.ip().to_canonical();
    let headers: Vec<&str> = request
        .headers()
        .get_all(FORWARDED_FOR)
        .filter_map(|value| value.to_str().ok())
        .collect();
    for before in headers.iter().rev().flat_map(|header| header.rsplit(',')) {
        if !trusted.iter().any(|net| net.contains(&client)) {
            break;
        }
        let Some(address) = parse(before.trim()) else { break };
        client = address;
    }
    Some(client)
}

/// Some proxies add the port.
fn parse(text: &str) -> Option<IpAddr> {
    let address = text
        .parse()
        .ok()
        .or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip()));
    address.map(|address: IpAddr| address.to_canonical())
}

/// Those who share one allowance: an IPv4 address, or the /64 of an IPv6 one, since one household has all of that.
pub(super) fn household(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn seen(peer: &str, forwarded: &[&'static str]) -> String {
        let trusted = ["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
        let mut request = TestRequest::get().peer_addr(format!("{peer}:1").parse().unwrap());
        for header in forwarded {
            request = request.append_header((FORWARDED_FOR, *header));
        }
        client(&request.to_http_request(), &trusted).unwrap().to_string()
    }

    #[test]
    fn only_a_proxy_of_our_own_is_believed() {
        assert_eq!(seen("192.0.2.7", &["198.51.100.1"]), "192.0.2.7");
        assert_eq!(seen("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(seen("10.0.0.1", &["198.51.100.1"]), "198.51.100.1");
        assert_eq!(seen("[::1]", &["2001:db8::5"]), "2001:db8::5");
        assert_eq!(seen("[::ffff:10.0.0.1]", &["198.51.100.1:4711"]), "198.51.100.1");
    }

    #[test]
    fn what_the_client_itself_put_into_the_header_is_not_believed() {
        assert_eq!(seen("10.0.0.1", &["203.0.113.9, 198.51.100.1"]), "198.51.100.1");
        assert_eq!(
            seen("10.0.0.1", &["203.0.113.9, 198.51.100.1, 10.0.0.2"]),
            "198.51.100.1"
        );
        assert_eq!(seen("10.0.0.1", &["203.0.113.9", "198.51.100.1"]), "198.51.100.1");
        assert_eq!(seen("10.0.0.1", &["198.51.100.1, nonsense"]), "10.0.0.1");
        assert_eq!(seen("10.0.0.1", &["10.0.0.3, 10.0.0.2"]), "10.0.0.3");
    }

    #[test]
    fn a_household_is_one_whatever_address_of_its_own_it_takes() {
        let of = |text: &str| household(text.parse().unwrap()).to_string();
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(of("192.0.2.7"), "192.0.2.7");
        assert_eq!(of("::ffff:192.0.2.7"), "192.0.2.7");
    }
}
