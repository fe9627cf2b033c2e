FROM proctor-test/setup:bookworm
WORKDIR /srv
COPY store.py .
RUN touch inbox.txt
CMD ["python3", "store.py"]
