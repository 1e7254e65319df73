# svc in a container: the binary, the C library it is linked with, and nothing else.
# `./scripts/image` builds it; `docker compose up` does too (compose.yaml).
#
# The image is built for the requested platform on the platform of the builder: Bun cross-compiles, and nothing of the other
# processor runs. So you can build several platforms at once without emulation:
#   ./scripts/image --platform linux/amd64,linux/arm64 -t registry.example.org/svc --push

FROM --platform=$BUILDPLATFORM node:24-bookworm-slim AS dependencies
WORKDIR /svc
# These files change rarely. While they stay the same, the installed packages come from the cache.
COPY package.json bun.lock bunfig.toml ./
COPY test/deploy-tools/package.json test/deploy-tools/
COPY test/mcp-tools/package.json test/mcp-tools/
COPY test/openapi-tools/package.json test/openapi-tools/
# Bun comes from npm, in the version that package.json names.
RUN npx --yes --allow-scripts=bun "bun@$(node -p 'require("./package.json").devDependencies.bun')" install --frozen-lockfile

# The system of the requested platform. It is only read, never run.
FROM debian:bookworm-slim AS system

FROM dependencies AS build
ARG TARGETARCH
# There is no repository here. Without this argument the version is without its commit.
ARG COMMIT=
COPY . .
# The runtime inside the binary is cached between builds, and checked against the lock file at each build.
# Without TARGETARCH (some engines do not set it) the image is for the builder's own platform.
RUN --mount=type=bind,from=system,target=/system \
    --mount=type=cache,target=/svc/.bun/runtimes \
    cpu=${TARGETARCH:-$(dpkg --print-architecture)} && \
    BUILD_COMMIT=$COMMIT node_modules/.bin/bun scripts/build.ts "--target=bun-linux-$(echo "$cpu" | sed s/amd64/x64/)" --outfile=/image/svc && \
    scripts/image-root "$cpu" /system /image

FROM scratch
COPY --from=build /image/root/ /
COPY --from=build --chown=65532:65532 /image/own/ /
COPY LICENSE /
COPY --from=build /image/svc /svc

# In a container nobody calls from loopback, so it listens on all addresses. Every caller then needs the token, except for the
# simulated WeChat's phone. With the last variable the process need not restart itself when it holds many accounts.
ENV PATH=/ \
    HOME=/data \
    SVC_BASE_PATH=/data \
    SVC_HOST=0.0.0.0 \
    SVC_SANDBOX_HOST=0.0.0.0 \
    BUN_CONFIG_MAX_HTTP_REQUESTS=60000
WORKDIR /data
VOLUME /data
USER 65532:65532
EXPOSE 8000 8080
ENTRYPOINT ["/svc"]
CMD ["openapi", "--admin-port", "8080"]
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["/svc", "health"]

# The labels come last since the version changes most often. scripts/image reads it from package.json.
ARG VERSION=unreleased
ARG COMMIT=
LABEL org.opencontainers.image.title="svc" \
      org.opencontainers.image.description="WeChat bot accounts as tools over REST, with a simulated WeChat built in" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$COMMIT"
