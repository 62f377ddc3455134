"""Skills: saved programs that other programs import as `skills.<name>`.

project_skills    those that people put into the project's folder; programs can't write there
skill_folders     folders with a SKILL.md among them
store             those that programs of one principal saved: accepted ones, proposals and earlier versions
skill_source      what is known of a skill from its text alone
plain_files       reads files of a person's folder
skill_file        the file of one of them: a readable header and the text
rules             what a program may save
library           what one session sees of all of these
program_skills    what a program imports and saves, and what becomes of that when it ends
"""
