# A cluster of insync in one container, for development and tests:
#
#   docker build -t insync .
#   docker run --rm -p 9092-9094:9092-9094 insync
#
# Clients on the machine connect to localhost:9092. compose.yaml keeps the data in a volume.
FROM python:3.13-slim

COPY pyproject.toml README.md LICENSE /source/
COPY src /source/src
COPY docs /source/docs
RUN pip install --no-cache-dir "/source[server]" \
    && useradd --create-home insync \
    && install -d -o insync /data

USER insync
VOLUME /data
EXPOSE 9092-9094 9192-9194
HEALTHCHECK --interval=5s --timeout=20s --start-period=30s CMD ["insync", "health", "--timeout", "10"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["insync"]
CMD ["up", "--host", "0.0.0.0", "--data", "/data", "--port", "9092", "--metrics-port", "9192"]
