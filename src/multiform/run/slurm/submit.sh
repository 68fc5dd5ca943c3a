#!/bin/bash
# Submits the jobs, and the merge for when all of them have ended, whether they failed or not.
set -eu
job=$(sbatch --parsable @folder/array.sbatch)
sbatch --dependency="afterany:$job" @folder/merge.sbatch
