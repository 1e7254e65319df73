/** A self-signed certificate for `example.test`, valid for a hundred years; it guards nothing. */
export const certificate = `-----BEGIN CERTIFICATE-----
MIIBnjCCAUSgAwIBAgIUV7hZmE6Fk0TsFbwfQ/9hM/9yVQcwCgYIKoZIzj0EAwIw
FzEVMBMGA1UEAwwMZXhhbXBsZS50ZXN0MCAXDTI2MTEyMDE5MzEzMloYDzIxMjYx
MDI3MTkzMTMyWjAXMRUwEwYDVQQDDAxleGFtcGxlLnRlc3QwWTATBgcqhkjOPQIB
BggqhkjOPQMBBwNCAARJtiZyfLEmMD4/xtza/qumPIpB+IXc0QLN6LFcgKG+17Op
7+ZxyUEgdWyJnQOhpbWbtbCqoQK6qhA2S6Zuo0Dxo2wwajAdBgNVHQ4EFgQUwzPk
gpVomKzwxcGPh0fkr3YbliUwHwYDVR0jBBgwFoAUwzPkgpVomKzwxcGPh0fkr3Yb
liUwDwYDVR0TAQH/BAUwAwEB/zAXBgNVHREEEDAOggxleGFtcGxlLnRlc3QwCgYI
KoZIzj0EAwIDSAAwRQIhAJzweKV0b+SY1hM3RbRLm4H+81BTg3PsSjBjU18ENbRc
AiAIPkJTM4CDbwQcbhzImgj71PRb8f1ztxF7b5CeN+Ts9Q==
-----END CERTIFICATE-----
`
export const privateKey = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgCDhSj1+rAC28xc5l
gtbm0fwWAPJTKBYwaclGKtRHZbGhRANCAARJtiZyfLEmMD4/xtza/qumPIpB+IXc
0QLN6LFcgKG+17Op7+ZxyUEgdWyJnQOhpbWbtbCqoQK6qhA2S6Zuo0Dx
-----END PRIVATE KEY-----
`
