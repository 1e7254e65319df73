# svc in a container: the binary, the C library it is linked with, and nothing else.
# `./scripts/image` builds it; `docker compose up` does too (compose.yaml).
#
# It is built for the platform that was asked for on the platform that builds: Bun compiles across, and nothing of the
# other processor is ever run. So several platforms at once need no emulation:
#   ./scripts/image --platform linux/amd64,linux/arm64 -t registry.example.org/svc --push

FROM --platform=$BUILDPLATFORM node:24-bookworm-slim AS dependencies
WORKDIR /svc
# Changed seldom: as long as these stay, what follows comes from the cache.
COPY package.json bun.lock bunfig.toml ./
COPY test/mcp-tools/package.json test/mcp-tools/
COPY test/openapi-tools/package.json test/openapi-tools/
# Bun comes from npm, in the version that package.json names.
RUN npx --yes --allow-scripts=bun "bun@$(node -p 'require("./package.json").devDependencies.bun')" install --frozen-lockfile

# Of the platform that was asked for; only read, never run.
FROM debian:bookworm-slim AS system

FROM dependencies AS build
ARG TARGETARCH
COPY . .
# The runtime that the binary is made from is kept between builds, and held against the lock file at each.
# Engines that do not name the platform build for their own.
RUN --mount=type=bind,from=system,target=/system \
    --mount=type=cache,target=/svc/.bun/runtimes \
    cpu=${TARGETARCH:-$(dpkg --print-architecture)} && \
    node_modules/.bin/bun scripts/build.ts "--target=bun-linux-$(echo "$cpu" | sed s/amd64/x64/)" --outfile=/image/svc && \
    scripts/image-root "$cpu" /system /image

FROM scratch
COPY --from=build /image/root/ /
COPY --from=build --chown=65532:65532 /image/own/ /
COPY LICENSE /
COPY --from=build /image/svc /svc

# Inside a container loopback is nobody. Others need the token for all of it but the simulated WeChat's phone.
# The last one spares the process a new start when it holds many accounts.
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

# Last, since it changes most often. The version is the one of package.json, which scripts/image reads.
ARG VERSION=unreleased
LABEL org.opencontainers.image.title="svc" \
      org.opencontainers.image.description="WeChat bot accounts as tools over REST, with a simulated WeChat built in" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="$VERSION"
