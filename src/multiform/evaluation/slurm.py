"""Scripts that run a sweep with SLURM: each job has a store on its node's disk, and the stores are merged at the end.

SQLite is not safe on the file systems that the nodes of a cluster share. Jobs therefore write to a local disk, and
put a finished copy of the file onto the shared one.
"""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from string import Template

from multiform.errors import UsageError, shorten
from multiform.evaluation.sweep import Sweep
from multiform.paths import replace_output

_ARRAY = Template("""\
#!/bin/bash
# A job for each model of $file. Add what your cluster needs, such as --partition, --gres and --time.
#SBATCH --job-name=multiform-sweep
#SBATCH --array=0-$last
#SBATCH --output=$folder/%a.log
#SBATCH --signal=B:TERM@120
set -u
stores=$stores
number=$$SLURM_ARRAY_TASK_ID
scratch=$$(mktemp -d "$${SLURM_TMPDIR:-$${TMPDIR:-/tmp}}/multiform.XXXXXX")
# SQLite is not safe on a shared file system: the store of this job is on the disk of its node.
for known in "$$stores/$$number.db" "$$stores/all.db"; do
    if [ -f "$$known" ]; then cp "$$known" "$$scratch/answers.db"; break; fi
done
cd $cwd
multiform sweep $file --only "$$number" --cache_path "$$scratch/answers.db" &
run=$$!
trap 'kill -TERM "$$run"' TERM
wait "$$run"; code=$$?
if [ "$$code" -gt 128 ]; then wait "$$run"; fi
# A copy that nobody writes to, moved in place at once.
if [ -f "$$scratch/answers.db" ] && ! {
    multiform store merge "$$scratch/copy.db" "$$scratch/answers.db" &&
        cp "$$scratch/copy.db" "$$stores/$$number.part" && mv "$$stores/$$number.part" "$$stores/$$number.db"
}; then
    echo "the responses could not be copied to $$stores; they are in $$scratch/answers.db on $$(hostname)" >&2
    exit 1
fi
rm -rf "$$scratch"
exit "$$code"
""")
_MERGE = Template("""\
#!/bin/bash
# Merges the stores of all jobs of $file, and prints the leaderboard of the stored responses: no model is run.
#SBATCH --job-name=multiform-merge
#SBATCH --output=$folder/leaderboard.log
set -eu
stores=$stores
scratch=$$(mktemp -d "$${SLURM_TMPDIR:-$${TMPDIR:-/tmp}}/multiform.XXXXXX")
trap 'rm -rf "$$scratch"' EXIT
if ! cp "$$stores"/*.db "$$scratch"; then
    echo "no job has left its responses in $$stores; see its log" >&2
    exit 1
fi
multiform store merge "$$scratch/merged.sqlite" "$$scratch"/*.db
cp "$$scratch/merged.sqlite" "$$stores/all.part" && mv "$$stores/all.part" "$$stores/all.db"
cd $cwd
multiform sweep $file --cache_path "$$scratch/merged.sqlite" --cached
""")
_SUBMIT = Template("""\
#!/bin/bash
# Submits the jobs, and the merge for when all of them have ended, whether they failed or not.
set -eu
job=$$(sbatch --parsable $folder/array.sbatch)
sbatch --dependency="afterany:$$job" $folder/merge.sbatch
""")


def write_scripts(sweep: Sweep, folder: Path) -> list[Path]:
    """Write the scripts of a sweep to a folder on the shared file system; the last one submits the others."""
    folder = folder.absolute()
    for path in map(str, (sweep.path.absolute(), folder, Path.cwd())):
        if not path.isprintable():  # a line break would end the comment that the path is in
            message = f"{shorten(path)} has characters that a script cannot have"
            raise UsageError(message, where="--slurm", hint="rename the folder or file")
    stores = folder / "stores"
    stores.mkdir(parents=True, exist_ok=True)
    values = {
        "file": quote(str(sweep.path.absolute())),
        "last": len(sweep.models) - 1,
        "folder": quote(str(folder)),
        "stores": quote(str(stores)),
        "cwd": quote(str(Path.cwd())),
    }
    files = []
    for name, template in (("array.sbatch", _ARRAY), ("merge.sbatch", _MERGE), ("submit.sh", _SUBMIT)):
        with replace_output(folder / name) as file:
            file.write_text(template.substitute(values), encoding="utf-8")
            file.chmod(0o755)
        files.append(folder / name)
    return files
