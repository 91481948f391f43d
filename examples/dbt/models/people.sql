-- The private rows, as the warehouse has them; one column names the person.
select * from read_parquet('deliveries/*.parquet')
