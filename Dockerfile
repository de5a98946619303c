# The action's image. Rules that GitHub sets for Docker actions: no USER (the checkout would not be
# readable), no reliance on WORKDIR (it is mounted over), an absolute ENTRYPOINT.
#
# A release pins the base by digest: --build-arg BASE=python:3.13-slim@sha256:<digest>
ARG BASE=python:3.13-slim
FROM ${BASE}

# The dependencies change rarely, so they come first and stay cached. The bytecode is compiled here
# because the base image ships none: without it every run compiles the standard library anew.
COPY requirements.lock /quantgate/
RUN python -m pip install --require-hashes --no-cache-dir --no-compile \
        --disable-pip-version-check --root-user-action=ignore -r /quantgate/requirements.lock

COPY entrypoint.py /quantgate/
COPY templates /quantgate/templates
COPY checks /quantgate/checks
COPY quantgate /quantgate/quantgate

# `-I` below keeps PYTHON* variables and the checkout off the import path; the .pth file puts
# /quantgate on it. One check, of a folder that is not there (exit code 3), writes the bytecode of
# whatever a check imports and proves that the image works.
RUN python -c "import pathlib, sysconfig; \
               pathlib.Path(sysconfig.get_path('purelib'), 'quantgate.pth').write_text('/quantgate')" \
    && python -m compileall -q /quantgate \
    && { python -I /quantgate/entrypoint.py check /missing --markdown -; test $? -eq 3; }

ENTRYPOINT ["/usr/local/bin/python", "-IB", "/quantgate/entrypoint.py"]
