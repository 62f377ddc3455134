"""Who a request over HTTP comes from: the tokens of the product, those of an issuer, and the principal behind each."""
