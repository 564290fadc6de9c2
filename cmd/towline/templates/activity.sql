-- What follows each run: the number of commits per repository and month, appended under the generation of the run. Done
-- twice it would count every month twice, so towline.yaml says at_most_once.
CREATE TABLE IF NOT EXISTS activity (repo TEXT NOT NULL, month TEXT NOT NULL, commits INTEGER NOT NULL, generation TEXT NOT NULL);

INSERT INTO activity (repo, month, commits, generation)
SELECT repo, coalesce(substr(committer_time, 1, 7), window) AS month, count(*), :generation
FROM commits
GROUP BY repo, month;
