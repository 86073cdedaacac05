# An image of `nearcast serve`. Untested: no container could be run where it was written.
#   docker build -t nearcast . && docker run --read-only --tmpfs /tmp -v nearcast-data:/data -p 8080:8080 nearcast
# Listening beyond loopback needs a token, made once in the volume:
#   docker run --rm -v nearcast-data:/data nearcast token create --data /data --scopes admin
FROM python:3.12-slim AS build
COPY . /source
RUN python -m venv /nearcast && /nearcast/bin/pip install --no-cache-dir '/source[server]'
# Kernels are compiled here, so that the first request need not wait for them and the image can be read-only.
RUN NEARCAST_CACHE_DIR=/nearcast/kernels /nearcast/bin/nearcast warm

FROM python:3.12-slim
COPY --from=build /nearcast /nearcast
RUN useradd --system --uid 10001 nearcast && mkdir /data && chown nearcast /data
USER nearcast
ENV NEARCAST_CACHE_DIR=/nearcast/kernels
VOLUME /data
EXPOSE 8080
ENTRYPOINT ["/nearcast/bin/nearcast"]
CMD ["serve", "--host", "0.0.0.0", "--data", "/data"]
