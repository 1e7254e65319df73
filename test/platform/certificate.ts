/** A self-signed certificate for `example.test`, valid from 2000 for two hundred years, whatever a machine's clock says; it guards nothing. */
export const certificate = `-----BEGIN CERTIFICATE-----
MIIBnTCCAUSgAwIBAgIUM5FnmLvrugACv/cdJfaV2keax2QwCgYIKoZIzj0EAwIw
FzEVMBMGA1UEAwwMZXhhbXBsZS50ZXN0MCAXDTAwMDEwMTAwMDAwMFoYDzIxOTkx
MTEzMDAwMDAwWjAXMRUwEwYDVQQDDAxleGFtcGxlLnRlc3QwWTATBgcqhkjOPQIB
BggqhkjOPQMBBwNCAARJtiZyfLEmMD4/xtza/qumPIpB+IXc0QLN6LFcgKG+17Op
7+ZxyUEgdWyJnQOhpbWbtbCqoQK6qhA2S6Zuo0Dxo2wwajAdBgNVHQ4EFgQUwzPk
gpVomKzwxcGPh0fkr3YbliUwHwYDVR0jBBgwFoAUwzPkgpVomKzwxcGPh0fkr3Yb
liUwDwYDVR0TAQH/BAUwAwEB/zAXBgNVHREEEDAOggxleGFtcGxlLnRlc3QwCgYI
KoZIzj0EAwIDRwAwRAIgPwCAV8h+5MwbyjZoPMmQpWP7ZRrod0ufrGg+6TBm5b8C
IHvblsaR/CF5O59kuNdnjg1qc/0yf57MFB30RZw32aZU
-----END CERTIFICATE-----
`
export const privateKey = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgCDhSj1+rAC28xc5l
gtbm0fwWAPJTKBYwaclGKtRHZbGhRANCAARJtiZyfLEmMD4/xtza/qumPIpB+IXc
0QLN6LFcgKG+17Op7+ZxyUEgdWyJnQOhpbWbtbCqoQK6qhA2S6Zuo0Dx
-----END PRIVATE KEY-----
`

/** The same, expired since 2020. */
export const expiredCertificate = `-----BEGIN CERTIFICATE-----
MIIBZTCCAQugAwIBAgIBATAKBggqhkjOPQQDAjAXMRUwEwYDVQQDDAxleGFtcGxl
LnRlc3QwHhcNMjAwMTAxMDAwMDAwWhcNMjAwMTAyMDAwMDAwWjAXMRUwEwYDVQQD
DAxleGFtcGxlLnRlc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARJtiZyfLEm
MD4/xtza/qumPIpB+IXc0QLN6LFcgKG+17Op7+ZxyUEgdWyJnQOhpbWbtbCqoQK6
qhA2S6Zuo0Dxo0gwRjAXBgNVHREEEDAOggxleGFtcGxlLnRlc3QwDAYDVR0TBAUw
AwEB/zAdBgNVHQ4EFgQUwzPkgpVomKzwxcGPh0fkr3YbliUwCgYIKoZIzj0EAwID
SAAwRQIhAJ0yxQwY8+ccrma/hphIbB6jXDbdxWyDHmyg0seLTw7iAiBPHEvMQTgG
5+VvNKUQPdQvSIZS02Lbhqhej3s9+IM6kw==
-----END CERTIFICATE-----
`
