"""Words and lines that readers and rules treat in a way of their own, by kind of file."""

from __future__ import annotations

import encodings.aliases

CODECS = sorted({*encodings.aliases.aliases, *encodings.aliases.aliases.values(), "undefined", "idna", "unknown-8bit"})

ANY = (
    b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\0", b"\r", b"\x0c", b"\x0b", b"\x1c", b"\x85", b"\xc2\x85",
    b"\x1b[31m", b"\x07", b"\xff", b"\xc3(", b"\xed\xa0\x80", b"\xf0\x9f\x99\x82", "\u2028".encode(),
    "\u202e".encode(), "\u2066".encode(), "\u0130".encode(), "\u00df".encode(), "e\u0301".encode(),
    "\U0010ffff".encode(), "\u0661\u0662".encode(), b"\\", b"\\\n", b"'", b'"', b'"""', b"`", b"(" * 60, b")" * 60,
    b"[" * 400, b"{" * 400, b"a" * 300, b"a/" * 200, b"../" * 60, b"9" * 5000, b"0x" + b"f" * 5000, b"1e999999999",
    b"-1", b"0", b"1.", b"nan", b"# gpulint: ignore", b"# gpulint: ignore[GPU301]", b"# gpulint: ignore-file",
    b"{{ x }}", b"{% if x %}", b"{% endif %}", b"{% for i in x %}", b"{#", b"${{ x }}", b"::error file=x::y",
    b"##[error]x",
)  # fmt: skip
_PYTHON = (
    b"import torch\n", b"from torch.utils.data import DataLoader\n", b"import tensorflow as tf\n",
    b"from train import *\n", b"from . import train\n", b"from ..... import x\n", b"DataLoader(",
    b"DataLoader(data, num_workers=", b"batch_size=", b"pin_memory=True", b"num_workers=int(1e400)",
    b"num_workers=1 << 99999", b"batch_size=10 ** 10 ** 10", b"**kwargs", b"*args", b"for batch in loader:\n    ",
    b"while True:\n    ", b"with torch.no_grad():\n    ", b"loss.backward()", b".item()", b".cuda()", b".to(device)",
    b"torch.save(model.state_dict(), 's3://bucket/x')", b"optimizer.step()", b"model(x)", b"self.",
    b"class A(A):\n    ", b"def f(x=f):\n    ", b"return f(f)", b"yield ", b"await ", b"async ", b"lambda: ",
    b"global x\n", b"nonlocal x\n", b"match x:\n    case ", b"try:\n    ", b"except* E:\n    ", b"finally:\n    ",
    b"else:\n    ", b"x := ", b"x: int = ", b"type X = int\n", b"f'{x!r:{y}}'", b"rb'\\x'", b"'\\ud800'",
    b"'\\N{DASH}'", b"'%s' % ", b"'{0[1].a}'.format(", b"del x\n", b"x = x = x\n", b"(yield)", b"...", b"0_0", b"1_",
    b"@property\n", b"@torch.no_grad()\n", b"if __name__ == '__main__':\n    ", b"argparse.ArgumentParser()",
    b"parser.add_argument('--batch-size', type=int, default=", b"os.environ['CUDA_VISIBLE_DEVICES'] = ''",
    b"!pip install x\n", b"%%bash\n", b"Trainer(", b"TrainingArguments(", b"DistributedDataParallel(model)",
    b"subprocess.run(['python', 'train.py'])", b"time.sleep(10 ** 400)", b"getattr(x, 'y')", b"x[::",
    b"[x for x in x for x in x]", b"not " * 50, b"-" * 50, b"a." * 50, b"if x:\n",
)  # fmt: skip
_SHELL = (
    b"#!/bin/bash\n", b"#SBATCH --gres=gpu:4\n", b"#SBATCH --gpus=", b"#SBATCH --array=0-999999999\n",
    b"#SBATCH --cpus-per-task=\n", b"#SBATCH --nodes=1-\n", b"#SBATCH --time=99-99:99:99\n", b"#SBATCH -G a100:",
    b"#SBATCH hetjob\n", b"#PBS -l select=1:ngpus=4\n", b"#BSUB -gpu num=4\n", b"#$ -l gpu=1\n", b"python train.py ",
    b"torchrun --nproc_per_node=", b"accelerate launch ", b"srun ", b"deepspeed --num_gpus ", b"mpirun -np 4 ",
    b"python -m ", b"python - <<EOF\n", b"EOF\n", b"<<<", b"$(", b"`", b"${A:-", b"${A:=$A}", b"${A//a/b}",
    b"${A%%*}", b"${!A}", b"${A[@]}", b"${#A[@]}", b"${A:0:-1}", b"${A@Q}", b"$((", b"$((1/0))", b"$((2**63))",
    b"$((A=A+1))", b"A=$A$A\n", b"A=(x x)\n", b'A=("${A[@]}" "${A[@]}")\n', b"A+=$A\n", b"declare -A A\n",
    b"export A\n", b"local A\n", b"{1..999999999}", b"{a,b}{a,b}{a,b}{a,b}", b"*?[!a]", b"~root/",
    b"for i in $(seq 1 99999999); do\n", b"do\n", b"done\n", b"while read x; do\n", b"until false; do\n",
    b"if [ -f x ]; then\n", b"elif\n", b"else\n", b"fi\n", b"case $1 in\n", b"a) ", b";;\n", b"esac\n", b"f() {\n",
    b"}\n", b"f\n", b"f &\n", b"wait\n", b"set -e\n", b"shift 99\n", b"eval \"$A\"\n", b"exec \"$0\" \"$@\"\n",
    b"source x.sh\n", b". ./train.sh\n", b"cd /\n", b"cd ..\n", b"pushd x\n", b"sleep infinity\n",
    b"pip install torch\n", b"conda activate x\n", b"sbatch train.sh\n", b"bash -c '", b"ssh host ", b"env -i ",
    b"nohup ", b"timeout 1 ", b"sudo ", b"xargs -I{} ", b"parallel ::: ", b"| tee x", b"2>&1", b">/dev/null", b"&& ",
    b"|| ", b"; ", b"CUDA_VISIBLE_DEVICES= ", b"aws s3 cp --recursive s3://b/x .\n", b"cp -r /mnt/x /tmp\n",
    b"docker run --gpus all x ",
)  # fmt: skip
_YAML = (
    b"&a ", b"*a", b"<<: *a\n", b"<<: [*a, *a]\n", b"&a [*a]", b"!!python/object/apply:os.system [x]", b"!!binary x",
    b"!!set ", b"!<x> ", b"%YAML 1.1\n", b"%TAG ! x\n", b"---\n", b"...\n", b"? ", b": ", b"- ", b"|\n", b"|+9\n",
    b">-\n", b"{", b"}", b"[", b"]", b"~", b"null", b"yes", b"0o7", b"1:30:00", b"2001-01-01", b"2001-99-99", b".inf",
    b"0b1", b"1_000", b"\t", b"'", b"@", b"resources:\n", b"limits:\n", b"nvidia.com/gpu: ",
    b"nvidia.com/gpu: 99999999999999999999", b"command: [python, train.py]\n", b"args: ", b"env:\n", b"image: x\n",
    b"kind: Job\n", b"kind: \n", b"apiVersion: batch/v1\n", b"spec:\n", b"template:\n", b"containers:\n",
    b"initContainers:\n", b"services:\n", b"deploy:\n", b"entrypoint: ", b"setup: |\n", b"run: |\n",
    b"accelerators: A100:8\n", b"num_gpus: ", b"instance_count: -1\n", b"defaults:\n", b"  - override /x: y\n",
    b"${x.y}", b"${oc.env:A}", b"replicas: 1e9\n", b"cpu: 100m\n", b"memory: 1Ei\n", b"{{ .Values.x }}",
    b"{{- range }}\n", b"{{- end }}\n", b"jobs:\n", b"steps:\n", b"uses: x\n", b"train_batch_size: ",
    b"zero_optimization:\n",
)  # fmt: skip
_DOCKERFILE = (
    b"FROM x\n", b"FROM x AS y\n", b"FROM $A\n", b"ARG A=\n", b"ARG A=$A\n", b"ENV A=a\n", b"ENV A=$A$A\n",
    b"ENV A a\n", b"ENV A\n", b"CMD ", b"CMD [\"python\", \"train.py\"]\n", b"CMD [" + b"[" * 200,
    b"CMD [1, null, {}]\n", b"ENTRYPOINT ", b"ENTRYPOINT []\n", b"RUN ", b"RUN <<EOF\n", b"EOF\n",
    b"RUN --mount=type=cache ", b"RUN [\"sh\", \"-c\", \"x\"]\n", b"COPY --from=y . .\n", b"COPY <<EOF x\n",
    b"ADD http://x y\n", b"WORKDIR /x\n", b"WORKDIR $A\n", b"SHELL [\"bash\", \"-c\"]\n", b"SHELL x\n",
    b"ONBUILD RUN x\n", b"HEALTHCHECK CMD x\n", b"USER x\n", b"LABEL a=b\n", b"# syntax=docker/dockerfile:1\n",
    b"# escape=`\n", b"`\n", b"${A:-b}", b"${A:+b}", b"${A", b"pip install torch", b"VOLUME [\n", b"STOPSIGNAL 99\n",
)  # fmt: skip
_NOTEBOOK = (
    b'"cells": ', b'"cell_type": "code"', b'"source": ', b'"source": [1, null]', b'"source": "x\\ud800"',
    b'"source": {}', b'"outputs": []', b'"metadata": null', b'"nbformat": 3', b'"worksheets": [{"cells": []}]',
    b'"language": "R"', b"NaN", b"-Infinity", b"1e400", b"\\u0000", b"\\ud83d", b"\\n", b"%%bash\\n",
    b"%%writefile train.py\\n", b"%%capture\\n", b"%%timeit\\n", b"!python train.py\\n", b"!{cmd}\\n", b"%run x\\n",
    b"%pip install x\\n", b"?\\n", b"x??\\n", b"get_ipython()\\n", b"x = !ls\\n", b"%cd ..\\n", b"await x\\n",
    b"[" * 300, b"null", b"{}", b"[]", b",", b":",
)  # fmt: skip
_SETTINGS = (
    b"[tool.gpulint]\n", b"[tool]\n", b"[[tool.gpulint]]\n", b"select = ", b'select = ["ALL"]\n', b'select = [""]\n',
    b"ignore = 1\n", b'extend-select = ["GPU"]\n', b'exclude = ["**/**/**"]\n', b'extend-exclude = ["!"]\n',
    b'extend-exclude = ["' + b"*a" * 12 + b'b"]\n', b'exclude = ["["]\n', b'exclude = ["../.."]\n',
    b"[per-file-ignores]\n", b'"*" = ["GPU301"]\n', b'"" = []\n', b'"***" = ["X"]\n', b"gpus-per-node = ",
    b"gpus-per-node = 99999999999999999999\n", b'severity = "error"\n', b"include-tests = true\n",
    b'remote-paths = [""]\n', b'cache-dir = "/tmp/x"\n', b"a.b.c = 1\n", b"x = 1979-05-27T07:32:00Z\n", b"x = inf\n",
    b"x = '''\n", b'x = "\\uD800"\n', b"[" * 300, b"{", b"}", b"]", b"=", b".", b'"',
)  # fmt: skip
_OTHER = (
    b"torch\n", b"-r requirements.txt\n", b"torch @ file:///x\n", b"{", b"}", b"[", b"]", b":", b",", b'"', b"null",
    b"1e999",
)  # fmt: skip

BY_KIND = {
    "python": _PYTHON,
    "shell": _SHELL,
    "jobspec": _YAML,
    "dockerfile": _DOCKERFILE,
    "notebook": _NOTEBOOK,
    "settings": _SETTINGS,
    "other": _OTHER,
}
NUMBERS = (
    b"0", b"-1", b"1", b"2", b"65535", b"2147483648", b"18446744073709551616", b"9" * 400, b"9" * 5000,
    b"0x" + b"f" * 5000, b"1e308", b"1e400", b"-0.0", b"0.1", b"1_000", b"00", b"nan", b"inf", b"08", b"1j",
    "\u0663".encode(), "\u00b2".encode(), b"1" * 40 + b".5",
)  # fmt: skip
EXTRA_FILES = (
    b"gpulint.toml", b".gitignore", b"requirements.txt", b"Dockerfile", b"train.py", b"__init__.py", b"conftest.py",
    b"ds_config.json", b"config.yaml", b"run.sh", b".gpulint_cache", b"gpulint-baseline.json", b"torch.py",
    b"environment.yml",
)  # fmt: skip
NAMES = (
    b"sur\xff%s", b"\xe9%s", b"new\nline%s", b"esc\x1b[31m%s", b"bell\x07%s", b"-%s", b"--config=%s", b"a::b%s",
    b"::error file=x::%s", b"a b\t%s", b"%%s%%d%s", b"a" * 240 + b"%s", "\u202e%s".encode(), "\U0001f642%s".encode(),
    b"$(touch x)%s", b"`id`%s", b"'%s", b'"%s', b"\\%s", b"*%s", b"[a%s", b"{a,b}%s", b"~%s", b"#%s", b"C:%s",
    b"con%s", b".%s", b"..%s", b"test_%s", b"Dockerfile.%s", b"%s.sh", b"%s.py", b"%s.ipynb", b"%s.yaml", b"%s~",
    b"\r%s", b"&lt;%s", b"<b>%s", b"\xed\xb3\xbf%s", b"1%s", b"class%s", b"None%s", b"import%s", b"a.b.c%s",
)  # fmt: skip
"""Names of files, with a place for the one that there was."""
