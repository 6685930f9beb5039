//! Who is calling: the first thing that is looked at in a request.

use actix_web::dev::Payload;
use actix_web::http::header::AUTHORIZATION;
use actix_web::{FromRequest, HttpRequest, web};
use futures_util::future::LocalBoxFuture;

use super::{Problem, Rest};
use crate::auth::{AuthError, OperatorKey};
use crate::domain::{Code, DeviceId, InvalidField, Origin, Principal};
use crate::service::ServiceError;

/// Names the acting device: it is spared the push of what its reply tells it.
const DEVICE_HEADER: &str = "x-device-id";

/// The principal of the bearer token.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// Who.
    pub principal: Principal,
}

impl Caller {
    /// The caller, and the device that `X-Device-Id` names.
    ///
    /// # Errors
    /// `invalid_request` when the header is no device id.
    pub fn origin(self, request: &HttpRequest) -> Result<Origin, InvalidField> {
        let device = request.headers().get(DEVICE_HEADER).map(|header| {
            let text = header.to_str().unwrap_or_default();
            DeviceId::connecting(text).map_err(|invalid| InvalidField::new("X-Device-Id", invalid.hint))
        });
        Ok(Origin {
            principal: self.principal,
            device: device.transpose()?,
        })
    }
}

impl FromRequest for Caller {
    type Error = Problem;
    type Future = LocalBoxFuture<'static, Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let token = bearer(request).map(str::to_owned);
        let rest = request.app_data::<web::Data<Rest>>().cloned();
        Box::pin(async move {
            let rest = rest.ok_or_else(|| ServiceError::internal(&"the REST door was not given its parts"))?;
            let token = token.ok_or_else(|| unauthenticated(AuthError::Missing))?;
            let claims = rest.authenticator.verify(&token, rest.clock.now());
            let claims = claims.map_err(unauthenticated)?;
            let principal = rest.principals.resolve(&claims.subject).await?;
            rest.rates.request(principal)?;
            Ok(Self { principal })
        })
    }
}

/// The holder of the admin key, who may do what no token allows.
#[derive(Clone, Debug)]
pub(super) struct Operator(pub(super) Origin);

impl FromRequest for Operator {
    type Error = Problem;
    type Future = std::future::Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let rest = request.app_data::<web::Data<Rest>>();
        let operator = rest.and_then(|rest| operator(request, &rest.operator_key));
        let refusal = || ServiceError::new(Code::Unauthenticated, "this needs the admin key (admin.api_key)");
        std::future::ready(operator.map(Self).ok_or_else(|| refusal().into()))
    }
}

/// The server itself, when the bearer is the admin key.
pub(super) fn operator(request: &HttpRequest, key: &OperatorKey) -> Option<Origin> {
    let origin = Origin {
        principal: Principal::SYSTEM,
        device: None,
    };
    bearer(request)
        .is_some_and(|given| key.opens_for(given))
        .then_some(origin)
}

fn unauthenticated(error: AuthError) -> ServiceError {
    ServiceError::new(Code::Unauthenticated, error.to_string())
}

/// The token of `Authorization: Bearer …`; the scheme in any case, as HTTP has it.
#[must_use]
pub fn bearer(request: &HttpRequest) -> Option<&str> {
    let header = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = header.split_once(' ')?;
    let token = token.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn only_a_bearer_header_carries_a_token() {
        let of = |value: &'static str| {
            let request = TestRequest::get()
                .insert_header((AUTHORIZATION, value))
                .to_http_request();
            bearer(&request).map(str::to_owned)
        };
        assert_eq!(of("Bearer a.b.c").as_deref(), Some("a.b.c"));
        assert_eq!(of("bearer  a.b.c ").as_deref(), Some("a.b.c"));
        for bad in ["", "Bearer", "Bearer ", "Basic YTpi", "a.b.c"] {
            assert_eq!(of(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_acting_device_is_named_by_a_header_or_not_at_all() {
        let caller = Caller {
            principal: Principal::user(7),
        };
        let of = |value: &'static str| {
            let request = TestRequest::get()
                .insert_header((DEVICE_HEADER, value))
                .to_http_request();
            caller
                .origin(&request)
                .map(|origin| origin.device.map(|device| device.to_string()))
        };
        assert_eq!(of("phone"), Ok(Some("phone".to_owned())));
        for bad in ["", "two words", "é"] {
            assert!(of(bad).is_err(), "{bad:?}");
        }
        let none = TestRequest::get().to_http_request();
        assert!(caller.origin(&none).unwrap().device.is_none());
    }
}
