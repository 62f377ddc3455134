"""Skills: saved programs that other programs import as `skills.<name>`.

It hooks in as a layer of executions (`program_skills`) and where programs import.

store             those that programs of one principal saved: accepted ones and proposals
rules             facts from a skill's text, and what a program may save
library           what one session sees of these and of the project's own
program_skills    what a program imports and saves, and what becomes of that when it ends
"""
