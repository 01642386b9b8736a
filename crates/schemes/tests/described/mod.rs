//! Schemes in the syntax of configurations.

use plan::{Call, Catalogue};
use schemes::model::Model;
use schemes::{DECLARATIONS, Layer, ORDERS, Scheme, build};

/// Builds the scheme of this description.
pub fn described(text: &str) -> Box<dyn Scheme<Model>> {
    fn layer(call: &Call) -> Layer<'_> {
        Layer { name: call.name, options: &call.options, inside: call.inner.iter().map(layer).collect() }
    }
    let catalogue = Catalogue { schemes: DECLARATIONS.to_vec(), orders: ORDERS.to_vec(), ..Catalogue::default() };
    let call = Call::scheme(text, &catalogue).unwrap_or_else(|error| panic!("{text}: {}", error.reason));
    build(&layer(&call)).unwrap_or_else(|error| panic!("{text}: {error}"))
}
