"""Retry budgets: extra limits for the router's own failovers, and the same objects for the layers of a model.

| kind | rule | its own names come from |
| --- | --- | --- |
| fixed | so many retries a call | everywhere |
| token_bucket | a deposit for each call, or for each success; a retry costs 1 | SRE book, Brooker |
| window | ratio of the calls of the last ttl, and a floor | Finagle, Linkerd, tower |
| envoy | retries in flight below a share of what is active | Envoy retry_budget |
| grpc | tokens fall by 1 with each failure, rise with each success; retries above half | gRPC retryThrottling |
| aws | a quota, a price by failure, refunds | AWS SDKs, standard mode |
| adaptive | refuses with a chance that grows with what the far side refused | SRE book, client-side throttling |
| gateway_api | share of the requests of an interval, and a floor | Gateway API, GEP-3388 |

The cap over a whole chain of layers is in `router.core.chain`, since it travels with the request.
"""
