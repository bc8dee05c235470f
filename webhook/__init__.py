"""The mutating admission webhook that adds a collector to Ray pods.

`admission` answers a review: it decodes (`reviews`), looks up (`facts`, for real in `kube/`),
decides (`decisions`) and patches (`patches/`); `transport` and `serving` bring reviews in, `cli`
is the program. Imports none of our other packages.
"""
